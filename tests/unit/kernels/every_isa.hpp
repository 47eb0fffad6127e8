#pragma once

#include "kernels/cpu/isa.hpp"

#include <boost/test/unit_test.hpp>

namespace troupe::test {

/// Puts back what a test selects.
struct RestoreIsa {
  kernels::Isa kept = kernels::selected_isa();
  bool four = kernels::issues_four();
  ~RestoreIsa() {
    kernels::select_loops(kept);
    kernels::assume_issues_four(four);
  }
};

/// Runs `f` with every instruction set of this machine, and where that is
/// AVX-512 with the tiles of narrow and of wide processors.
template <class F>
void for_every_isa(F f) {
  using kernels::Isa;
  RestoreIsa restore;
  for (auto isa : kernels::every_isa) {
    if (!kernels::has_isa(isa)) {
      BOOST_TEST_MESSAGE(kernels::name_of(isa) << " is not supported here");
      continue;
    }
    kernels::select_loops(isa);
    for (bool four : {false, true}) {
      if (four && isa != Isa::avx512)
        continue;
      kernels::assume_issues_four(four);
      BOOST_TEST_CONTEXT(kernels::name_of(isa)
                         << (four ? ", four operations a cycle" : "")) {
        f(isa);
      }
    }
  }
}

} // namespace troupe::test
