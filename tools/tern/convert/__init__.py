"""From a foreign model to a weights file. In: a path and the user's options. Out: a file, or one clear sentence.

words.py     numbers as people read them
files/       files of other projects: safetensors, GGUF; matrices that are read in pieces
families/    a model's config in, its features and the places of its tensors out
tokenizers/  tokenizer files in; a Tokenizer, its section and its test vectors out
sources/     a folder or file in, a Source out: the readers that join the three rooms above
chat/        a chat template in, rules that are proved equal to it out
writing/     a Source in, a finished and checked weights file out
paths.py     mistakes in the paths of a command
hub.py       the name of a model in, what to download and a folder of it out
rehearse.py  a model like another with random weights, timed
foresee.py   what a model will take, before its weights are loaded
job.py       a whole conversion, and the whole way from the name of a model
"""
