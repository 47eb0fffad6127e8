#pragma once

#include "kernels/cpu/optimizer_loops.hpp"
#include "kernels/optimizer/optimizer.hpp"

namespace troupe::kernels {

/// Works out the constants of an update of a trained parameter. What is
/// written, `out` and `state_out`, may be missing.
UpdateTerms update_terms(const OptimizerOptions& options,
                         const UpdateArgs& args);

/// The loop that carries a rule out.
OptimizerLoops::Update update_loop(OptimizerKind kind);

} // namespace troupe::kernels
