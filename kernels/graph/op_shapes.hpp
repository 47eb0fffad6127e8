#pragma once

#include "kernels/graph/op_site.hpp"

/// What each kind of operator checks and declares, and the shape of its output;
/// see OpRule::shape.
namespace troupe::kernels::shapes {

Shape dense(OpSite& site);
Shape conv2d(OpSite& site);
Shape pool(OpSite& site);
Shape batch_norm(OpSite& site);
Shape layer_norm(OpSite& site);
Shape activation(OpSite& site);
Shape softmax(OpSite& site);
Shape dropout(OpSite& site);
Shape embedding(OpSite& site);
Shape embedding_bag(OpSite& site);
Shape attention(OpSite& site);
Shape rotary(OpSite& site);
Shape swiglu(OpSite& site);
Shape interaction(OpSite& site);
Shape factorization(OpSite& site);
Shape concat(OpSite& site);
Shape slice(OpSite& site);
Shape reshape(OpSite& site);
Shape transpose(OpSite& site);
Shape same_shapes(OpSite& site);
Shape bias(OpSite& site);
Shape softmax_cross_entropy(OpSite& site);
Shape sigmoid_cross_entropy(OpSite& site);
Shape mean_squared_error(OpSite& site);

} // namespace troupe::kernels::shapes
