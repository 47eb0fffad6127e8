#include "kernels/cuda/nccl.cuh"

#include "kernels/cuda/library.cuh"

namespace troupe::kernels::nccl {

namespace {

Library load() {
  const CudaLibrary library("NCCL", "libnccl.so.2");
  Library found{};
  library.find("ncclGetVersion", found.version);
  library.find("ncclGetErrorString", found.error_text);
  library.find("ncclGetUniqueId", found.make_id);
  library.find("ncclCommInitRankConfig", found.join);
  library.find("ncclCommGetAsyncError", found.state);
  library.find("ncclCommAbort", found.abort);
  library.find("ncclGroupStart", found.begin_group);
  library.find("ncclGroupEnd", found.end_group);
  library.find("ncclSend", found.send);
  library.find("ncclRecv", found.receive);
  library.find("ncclAllReduce", found.all_reduce);
  return found;
}

} // namespace

const Library& library() {
  static const Library loaded = load();
  return loaded;
}

} // namespace troupe::kernels::nccl
