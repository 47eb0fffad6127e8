#pragma once

#include "kernels/base/error.hpp"
#include "kernels/graph/sample_shape.hpp"

#include <cstdint>
#include <future>
#include <memory>
#include <string>
#include <vector>

namespace troupe {

/// What a Trainer is to do; the meaning and the defaults are those of the
/// command line (`troupe train --help`).
///
/// Who trains does not change the trained weights by a bit: strategy, devices,
/// workers, ps and shard, as long as consistency is sync. All else, and the
/// samples, decides them.
struct TrainerOptions {
  std::string model = "mlp:784-512-256-10";
  /// one_device, mirrored, parameter_server or fully_sharded.
  std::string strategy = "mirrored";
  std::string devices = "cpu:1"; ///< cpu:N, N from 1 to 1024; not of workers
  uint32_t workers = 2;          ///< parameter_server, fully_sharded
  uint32_t ps = 1;               ///< parameter_server
  uint32_t virtual_ranks = 4; ///< parts of a batch, summed along a fixed tree
  /// Parts of the sums that strategies like tensor cut, added along a tree too.
  uint32_t virtual_slices = 1;
  uint32_t global_batch = 64; ///< samples a step
  uint64_t epochs = 1;        ///< of each fit()
  std::string optimizer = "adam";
  double learning_rate = 1e-3;
  uint64_t seed = 0;
  /// Shape of the caller's samples; unknown: what the model was made for.
  SampleShape sample;
  double clip_norm = 0; ///< of the gradient of a step; 0: none
  /// parameter_server: sync, async or staleness:N, to begin with.
  std::string consistency = "sync";
  /// fully_sharded: optimizer, gradients or parameters.
  std::string shard = "parameters";
};

/// Samples in the caller's arrays, n of them; what the model does not take
/// stays empty.
struct TrainerSamples {
  std::vector<float> features; ///< [n, features of the model] row-major
  std::vector<int32_t> ids;    ///< [n, ids of the model], -1: absent
  std::vector<int32_t> labels; ///< [n], a class index, or 0 and 1
  std::vector<float> targets;  ///< [n], of a model that learns numbers
};

/// Trains on the caller's own arrays; all roles are actors of this process. Its
/// threads live as long as a call of fit(); what that learnt is kept with the
/// Trainer, the newest checkpoint in a folder below the temporary one, and goes
/// with it.
///
/// One thread uses a Trainer at a time, but for switch_consistency() and
/// reshape(), which are made for another one. A fit() that throws leaves what
/// was learnt before.
///
///     troupe::Trainer trainer{{.model = "mlp:2-16-2", .epochs = 5}};
///     auto result = trainer.fit(features, labels);
///     auto classes = trainer.predict(features);
class Trainer {
public:
  struct Result {
    uint64_t steps = 0; ///< of all calls of fit() so far
    /// Of the last step, nats; NaN: who knew it is gone.
    double final_loss = 0;
    double samples_per_second = 0;
    std::string weights_sha256;
  };

  /// Errors: UsageError for options that do not fit together.
  explicit Trainer(TrainerOptions options);
  ~Trainer();
  /// A copy goes on by itself from what was learnt so far.
  Trainer(const Trainer& other);
  Trainer& operator=(const Trainer& other);
  /// One that was moved from can be assigned to, and destroyed; no more.
  Trainer(Trainer&&) noexcept;
  Trainer& operator=(Trainer&&) noexcept;

  /// Trains for `epochs`. Called again with the same samples it goes on from
  /// where it was, optimizer state and all: twice 5 epochs are 10.
  /// Completion: the calling thread waits until all of it is trained.
  /// Shapes: features [n, inputs of the model] row-major; labels [n] in
  /// [0, outputs of the model).
  /// Errors: InputError (shapes, labels out of range, NaN loss, other samples
  /// than before); FileError, std::filesystem::filesystem_error: no room for a
  /// checkpoint below the temporary folder; std::runtime_error: the run failed.
  Result fit(std::vector<float> features, std::vector<int32_t> labels);

  /// Errors: as above, and InputError for ids out of range; text is not for
  /// arrays: use `troupe train --data text:FILE`.
  Result fit(TrainerSamples samples);

  /// Returns the class of each row of features [n, inputs], [n]; nothing where
  /// the model learns numbers: those are in what the other predict() returns.
  /// Errors: InputError before fit() or for a wrong length.
  std::vector<int32_t> predict(const std::vector<float>& features) const;

  struct Prediction {
    std::vector<int32_t> classes; ///< [n]; empty where numbers are learnt
    std::vector<float> scores;    ///< [n]: the probability of 1, or the number;
                                  ///< empty of classes
  };
  /// Labels and targets are not looked at.
  Prediction predict(TrainerSamples samples) const;

  /// Goes on as "sync", "async" or "staleness:N" in the fit() that is under way
  /// on another thread, between two steps; without one, in the next.
  /// Errors: UsageError for another text, or another strategy than
  /// parameter_server.
  void switch_consistency(const std::string& mode);

  /// Changes who takes part, or who keeps what, in the fit() that is under way
  /// on another thread, or in the next: "shards add 1", "shards remove ps:0",
  /// "workers add 2", "workers remove worker:1", "rebalance", "move-slices ps:0
  /// ps:1 3,4" (strategies/reshape.hpp). One after the other, in this order.
  /// Completion: the future has a line that says what became of it, or an
  /// InputError that says why nothing did. A change that no fit() has begun
  /// waits for the next one; its future has a std::future_error once the
  /// Trainer is gone. Errors: UsageError for other words.
  std::future<std::string> reshape(const std::string& change);

private:
  struct State;
  std::unique_ptr<State> state_; ///< null once it is moved from
};

} // namespace troupe
