// Preloaded into one process of a job: its tiles of matrix products, on which
// convolutions and dense layers stand, end with one element that is off by one
// unit in the last place, as those of a faulty processor or another build may.

#include "kernels/cpu/matrix_loops.hpp"

#include <sys/mman.h>
#include <unistd.h>

#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <iterator>

namespace {

using troupe::kernels::every_isa;
using troupe::kernels::Isa;
using troupe::kernels::MatrixTile;
using Tiles = void (*)(const MatrixTile&);

Tiles true_tiles[std::size(every_isa)];

template <size_t isa>
void off_tiles(const MatrixTile& tile) {
  true_tiles[isa](tile);
  *tile.c = std::nextafter(*tile.c, INFINITY);
}

/// The tables are constant; their page is written to once.
void plant(size_t isa, Tiles tiles) {
  auto& loops = const_cast<troupe::kernels::MatrixLoops&>(
    troupe::kernels::matrix_loops(static_cast<Isa>(isa)));
  const auto page = static_cast<uintptr_t>(getpagesize());
  const auto at = reinterpret_cast<uintptr_t>(&loops) / page * page;
  if (mprotect(reinterpret_cast<void*>(at), 2 * page, PROT_READ | PROT_WRITE)
      != 0) {
    std::perror("off_by_one_ulp");
    std::abort();
  }
  true_tiles[isa] = loops.tiles;
  loops.tiles = tiles;
}

[[gnu::constructor]] void plant_all() {
#if defined(__x86_64__)
  plant(0, off_tiles<0>);
  plant(1, off_tiles<1>);
  plant(2, off_tiles<2>);
#else
  plant(3, off_tiles<3>); // the one table of all sets
#endif
}

} // namespace
