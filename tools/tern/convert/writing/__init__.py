"""Writing the weights file of a Source. In: a Source and the wanted type. Out: the file under its final name, sealed by ./run,
made smaller by ./quantize where that was asked, compared with the source on request; and lines that say what was done.
"""
