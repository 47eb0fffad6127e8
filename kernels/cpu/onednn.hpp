#pragma once

#include <oneapi/dnnl/dnnl.hpp>
#include <oneapi/dnnl/dnnl_version.h>

#include <type_traits>

// oneDNN 2.6 (Debian 12) and 3 (Debian 13 and later) differ in how a primitive
// is described: the older one takes an operation descriptor, the newer one its
// parts. What differs lies here, and nowhere else.

namespace troupe::kernels {

constexpr bool onednn_has_descriptors = DNNL_VERSION_MAJOR < 3;

/// Describes a forward pass or a matrix product.
/// Parts: those of the primitive's constructor between engine and attributes.
/// Errors: dnnl::error where the library has no implementation.
template <class Primitive, class... Parts>
auto describe_pass(const dnnl::engine& engine,
                   const dnnl::primitive_attr& attributes,
                   const Parts&... parts) {
  using Description = typename Primitive::primitive_desc;
  if constexpr (onednn_has_descriptors)
    return Description({parts...}, attributes, engine);
  else
    return Description(engine, parts..., attributes);
}

/// Describes a backward pass whose forward pass is `hint`.
template <class Primitive, class Hint, class... Parts>
auto describe_backward_pass(const dnnl::engine& engine,
                            const dnnl::primitive_attr& attributes,
                            const Hint& hint, const Parts&... parts) {
  using Description = typename Primitive::primitive_desc;
  if constexpr (onednn_has_descriptors)
    return Description({parts...}, attributes, engine, hint);
  else
    return Description(engine, parts..., hint, attributes);
}

} // namespace troupe::kernels
