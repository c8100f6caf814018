//! The progressive codec of one tile: wavelet transform, bit-planes, entropy coder.
