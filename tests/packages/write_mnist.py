"""Writes a small data set in MNIST's format: python3 write_mnist.py FOLDER"""
import gzip
import os
import random
import struct
import sys

folder = sys.argv[1]
os.makedirs(folder, exist_ok=True)
rng = random.Random(1)
for name, count in (("train", 256), ("t10k", 128)):
    labels = bytes(i % 10 for i in range(count))
    with gzip.open(f"{folder}/{name}-images-idx3-ubyte.gz", "wb") as file:
        file.write(struct.pack(">HBBIII", 0, 8, 3, count, 28, 28) + rng.randbytes(count * 28 * 28))
    with gzip.open(f"{folder}/{name}-labels-idx1-ubyte.gz", "wb") as file:
        file.write(struct.pack(">HBBI", 0, 8, 1, count) + labels)
