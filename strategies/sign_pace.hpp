#pragma once

#include <cstddef>
#include <cstdint>

namespace troupe {

/// Signs of life that a coordinator takes in a second, of all members together.
inline constexpr uint64_t max_signs_a_second = 512;
/// Between two signs of a member of a small job.
inline constexpr uint64_t usual_sign_ms = 250;
/// The same of roles that share the coordinator's process.
inline constexpr uint64_t actor_sign_ms = 1'000;
/// So many signs fit into the silence that counts as loss, where that is not
/// shorter than the usual pace allows.
inline constexpr uint64_t signs_before_loss = 4;

/// How often a member gives a sign of life, in milliseconds between two: 250,
/// and from 129 members on less often, so that all together give some 512 a
/// second. However many there are, four fit into `loss_ms`, the silence that
/// counts as loss.
uint64_t sign_period_ms(size_t members, uint64_t loss_ms);

} // namespace troupe
