"""CRC-32C, as checkpoints and TFRecord files have it."""


def crc32c(data, value=0):
    """Of what follows data of that value, bit by bit."""
    value ^= 0xffffffff
    for byte in data:
        value ^= byte
        for _ in range(8):
            value = value >> 1 ^ (0x82f63b78 if value & 1 else 0)
    return value ^ 0xffffffff
