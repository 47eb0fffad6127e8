#pragma once

#include "kernels/collective/reducer.hpp"
#include "kernels/engine/replica.hpp"

#include <cstdint>
#include <memory>
#include <string>

namespace troupe::kernels {

/// The version of the NCCL that is loaded: "2.28.9".
/// Errors: InputError where the build has no CUDA, or NCCL is not found.
std::string nccl_version();

/// Memory of a device, 0 at first. Shapes: [elements].
/// Errors: InputError when the build has no CUDA; std::runtime_error where the
/// device has not so much.
std::shared_ptr<float> make_device_array(DeviceId device, uint64_t elements);

/// Sums where the gradients are: a step's vectors and its result are memory of
/// the member's GPU, each member has one of its own, and NCCL carries them. A
/// step has one result and no update.
///
/// The program's tree: each member gets a share of every vector, adds them in
/// the program's order, and gives the sum of its share to all (two passes of
/// (members - 1) / members of a gradient, as a ring has). `any_order`: NCCL's
/// all-reduce, of members with at most one vector each.
///
/// `host` joins the same members: what they need before the first step goes
/// over it, and all but steps. The communicator is as old as the group: made in
/// its first step, aborted with it; no call of NCCL waits for a peer.
/// Errors: InputError of nccl_version().
std::unique_ptr<Reducer>
make_nccl_reducer(ReducerLayout layout, DeviceId device,
                  std::unique_ptr<Reducer> host, bool any_order);

} // namespace troupe::kernels
