#include "kernels/graph/foreign_kinds.hpp"

namespace troupe::kernels {

std::span<const ForeignWord> foreign_kinds() {
  static constexpr ForeignWord words[] = {
    {"linear", "dense"},
    {"fc", "dense"},
    {"fullyconnected", "dense"},
    {"conv", "conv2d"},
    {"convolution", "conv2d"},
    {"depthwiseconv2d", "conv2d"},
    {"maxpool2d", "max_pool"},
    {"maxpooling2d", "max_pool"},
    {"avgpool", "average_pool"},
    {"avgpool2d", "average_pool"},
    {"adaptiveavgpool2d", "average_pool"},
    {"averagepooling2d", "average_pool"},
    {"globalaveragepooling2d", "average_pool"},
    {"batchnorm1d", "batch_norm"},
    {"batchnorm2d", "batch_norm"},
    {"batchnormalization", "batch_norm"},
    {"layernormalization", "layer_norm"},
    {"rmsnormalization", "rms_norm"},
    {"flatten", "reshape"},
    {"unflatten", "reshape"},
    {"view", "reshape"},
    {"permute", "transpose"},
    {"cat", "concat"},
    {"concatenate", "concat"},
    {"relu", "activation"},
    {"gelu", "activation"},
    {"silu", "activation"},
    {"tanh", "activation"},
    {"sigmoid", "activation"},
    {"mul", "multiply"},
    {"multiheadattention", "attention"},
    {"selfattention", "attention"},
    {"scaleddotproductattention", "attention"},
    {"crossentropyloss", "softmax_cross_entropy"},
    {"crossentropy", "softmax_cross_entropy"},
    {"sparsecategoricalcrossentropy", "softmax_cross_entropy"},
    {"nllloss", "softmax_cross_entropy"},
    {"bcewithlogitsloss", "sigmoid_cross_entropy"},
    {"bceloss", "sigmoid_cross_entropy"},
    {"binarycrossentropy", "sigmoid_cross_entropy"},
    {"mse", "mean_squared_error"},
    {"mseloss", "mean_squared_error"},
  };
  return words;
}

std::span<const ForeignWord> foreign_attributes() {
  static constexpr ForeignWord words[] = {
    {"outfeatures", "units"},
    {"outchannels", "units"},
    {"filters", "units"},
    {"out", "units"},
    {"kernelsize", "kernel"},
    {"poolsize", "kernel"},
    {"strides", "stride"},
    {"eps", "epsilon"},
    {"p", "rate"},
    {"numheads", "heads"},
    {"nhead", "heads"},
    {"iscausal", "causal"},
    {"usecausalmask", "causal"},
    {"numembeddings", "vocabulary"},
    {"inputdim", "vocabulary"},
    {"embeddingdim", "width"},
    {"outputdim", "width"},
    {"usebias", "bias"},
    {"kernelinitializer", "initializer"},
    {"dim", "axis"},
    {"dims", "permutation"},
    {"targetshape", "shape"},
  };
  return words;
}

} // namespace troupe::kernels
