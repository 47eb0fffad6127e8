#pragma once

#include "kernels/compression/compressor.hpp"

namespace troupe::kernels {

/// The formats of compressor.hpp, one each.
std::unique_ptr<Compressor> make_float16();             // halves.cpp
std::unique_ptr<Compressor> make_bfloat16();            // halves.cpp
std::unique_ptr<Compressor> make_int8();                // blocks.cpp
std::unique_ptr<Compressor> make_onebit();              // blocks.cpp
std::unique_ptr<Compressor> make_topk(double fraction); // topk.cpp

} // namespace troupe::kernels
