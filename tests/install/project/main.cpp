// A project of its own that trains on its own arrays with an installed Troupe.
#include "actors/trainer.hpp"

#include <cstdint>
#include <iostream>
#include <vector>

int main() {
  std::vector<float> features; // 8000 points of the plane
  std::vector<int32_t> labels; // on which side of a line
  for (int i = 0; i < 8000; ++i) {
    float x = float(i % 89) / 44 - 1, y = float(i % 97) / 48 - 1;
    features.insert(features.end(), {x, y});
    labels.push_back(2 * x + y > 0.3F);
  }
  troupe::Trainer trainer{{.model = "mlp:2-16-2",
                           .strategy = "mirrored",
                           .devices = "cpu:2",
                           .epochs = 5}};
  auto result = trainer.fit(features, labels);
  auto predicted = trainer.predict(features);
  int right = 0;
  for (size_t i = 0; i < labels.size(); ++i)
    right += predicted.at(i) == labels[i];
  std::cout << "loss " << result.final_loss << " accuracy "
            << double(right) / double(labels.size()) << '\n';
}
