#include "kernels/records/record_format.hpp"

#include "kernels/records/byte_stream.hpp"

namespace troupe {

void Record::refuse(const std::string& what, const std::string& advice) const {
  refuse_record(std::string{path}, offset, what, advice);
}

} // namespace troupe
