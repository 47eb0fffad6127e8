// Open MPI's side of `troupe bench all-reduce`, started by mpirun; see
// driven.hpp.

#include "driven.hpp"

#include <mpi.h>

#include <cstring>

namespace {

struct Peer {
  void prepare(float*, uint64_t, int) {}
  void all_reduce(float* data, uint64_t count) {
    MPI_Allreduce(MPI_IN_PLACE, data, static_cast<int>(count), MPI_FLOAT,
                  MPI_SUM, MPI_COMM_WORLD);
  }
};

} // namespace

int main(int argc, char** argv) {
  MPI_Init(&argc, &argv);
  int rank = 0;
  int ranks = 0;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &ranks);
  char path[] = "/dev/shm/troupe-peer-XXXXXX";
  driven::Board* board = nullptr;
  if (rank == 0 && ranks <= driven::max_ranks) {
    const int file = mkstemp(path);
    if (file >= 0)
      close(file);
    board = driven::Board::create(path, ranks);
  }
  MPI_Bcast(path, sizeof path, MPI_CHAR, 0, MPI_COMM_WORLD);
  if (rank != 0)
    board = driven::Board::attach(path);
  MPI_Barrier(MPI_COMM_WORLD);
  if (rank == 0)
    unlink(path);
  if (board == nullptr) {
    std::printf("error no shared memory\n");
    MPI_Abort(MPI_COMM_WORLD, 1);
  }
  Peer peer;
  int status = 0;
  if (rank == 0) {
    const auto version = "Open MPI " + std::to_string(OMPI_MAJOR_VERSION) + "."
                         + std::to_string(OMPI_MINOR_VERSION) + "."
                         + std::to_string(OMPI_RELEASE_VERSION);
    status = driven::lead(*board, version.c_str(), {"auto"}, peer);
  } else {
    driven::follow(*board, rank, peer);
  }
  MPI_Finalize();
  return status;
}
