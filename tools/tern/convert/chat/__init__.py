"""Chat templates. In: a template in Jinja, with the tokens that it may name. Out: rules that the engine applies, proved byte
for byte on other conversations, as the section `chat`; or the reason why rules cannot follow the template.
"""
