#include "kernels/base/crc32c.hpp"
#include "tests/unit/actors/links/link_pair.hpp"

#include <sys/mman.h>

using namespace troupe;

BOOST_AUTO_TEST_SUITE(link_loans)

namespace {

constexpr size_t arena = size_t{64} << 20;
const Fence fence{1, 2, 3};

std::shared_ptr<const PeerMemory> mapped(const LinkMemory& memory) {
  return PeerMemory::map(memory.to_pass());
}

/// Two links whose ends map each other's memory, as on one host.
struct Neighbours {
  Neighbours() : Neighbours(socket_pair()) {}
  explicit Neighbours(std::array<std::unique_ptr<LinkSocket>, 2> ends)
    : one(LinkMemory::make(arena)),
      other(LinkMemory::make(arena)),
      a(std::move(ends[0]), window, one, mapped(*other)),
      b(std::move(ends[1]), window, other, mapped(*one)) {
    run(a, b);
  }

  /// A push whose tensor lies in the memory of `a`.
  Push push(uint32_t slice, size_t count = 5'000) const {
    return {fence, 9, {0, 4}, slice, one->copy(numbered(count, slice).span())};
  }
  /// Sent on the socket by `a`, in all.
  uint64_t written() const { return b.link->counts().received_bytes; }

  static constexpr uint64_t window = 8 << 20;
  std::shared_ptr<LinkMemory> one;
  std::shared_ptr<LinkMemory> other;
  LinkEnd a;
  LinkEnd b;
};

const Push& as_push(const LinkMessage& message) {
  return std::get<Push>(message);
}

/// A peer that lends by its own rules.
struct Lender {
  Lender() : Lender(socket_pair()) {}
  explicit Lender(std::array<std::unique_ptr<LinkSocket>, 2> ends)
    : own(LinkMemory::make(arena)),
      peer(LinkMemory::make(arena)),
      end(std::move(ends[0]), 1 << 20, own, mapped(*peer)),
      raw{std::move(ends[1])} {
    end.turn();
  }

  void lend(const LentTensor& lent, uint32_t payload_bytes,
            MessageKind kind = MessageKind::push) {
    FrameHeader header;
    header.kind = lent_kind(frame_kind(kind));
    header.payload_bytes = payload_bytes;
    const auto note = encode_lent(lent);
    header.payload_crc = crc32c(0, note.data(), note.size());
    const auto head = encode_frame(header);
    std::vector<std::byte> all{head.begin(), head.end()};
    all.insert(all.end(), note.begin(), note.end());
    raw.send(all);
    end.turn();
  }

  std::shared_ptr<LinkMemory> own;
  std::shared_ptr<LinkMemory> peer;
  LinkEnd end;
  RawEnd raw;
};

} // namespace

BOOST_AUTO_TEST_CASE(a_tensor_in_shared_memory_arrives_without_being_sent) {
  Neighbours pair;
  const auto before = pair.written();
  const auto sent = pair.push(4);
  pair.a.link->send(sent);
  run(pair.a, pair.b);
  BOOST_REQUIRE(pair.b.got.size() == 1u);
  BOOST_TEST(same(pair.b.got[0], sent));
  BOOST_TEST(as_push(pair.b.got[0]).values.data() != sent.values.data());
  BOOST_TEST(pair.written() - before < 500u);
}

BOOST_AUTO_TEST_CASE(small_tensors_and_those_elsewhere_are_sent) {
  Neighbours pair;
  const auto small = pair.push(1, 10);
  const Push elsewhere{fence, 9, {0, 4}, 2, numbered(5'000, 2)};
  const auto before = pair.written();
  pair.a.link->send(small);
  pair.a.link->send(elsewhere);
  run(pair.a, pair.b);
  BOOST_REQUIRE(pair.b.got.size() == 2u);
  BOOST_TEST(same(pair.b.got[0], small));
  BOOST_TEST(same(pair.b.got[1], elsewhere));
  BOOST_TEST(pair.written() - before > 20'000u);
}

BOOST_AUTO_TEST_CASE(what_is_lent_is_not_used_again_until_it_is_given_back) {
  Neighbours pair;
  auto push = pair.push(1);
  const auto* first = push.values.data();
  pair.a.link->send(std::move(push));
  run(pair.a, pair.b);
  BOOST_TEST(pair.one->take(5'000).get() != first);
  pair.b.got.clear();
  run(pair.a, pair.b);
  pair.b.link->send(Pull{fence, {RoleKind::worker, 0}, 1});
  run(pair.a, pair.b); // what arrives makes the lender look
  auto kept = pair.one->take(5'000);
  auto more = pair.one->take(5'000);
  BOOST_TEST((kept.get() == first || more.get() == first));
}

BOOST_AUTO_TEST_CASE(more_tensors_than_slots_all_arrive) {
  Neighbours pair;
  std::vector<TensorView> held;
  const auto count = ReturnTable::slots + 50;
  for (uint32_t i = 0; i < count; ++i)
    pair.a.link->send(pair.push(i, 1'024));
  run(pair.a, pair.b);
  BOOST_REQUIRE(pair.b.got.size() == count);
  for (uint32_t i = 0; i < count; ++i)
    BOOST_REQUIRE(same(as_push(pair.b.got[i]).values, numbered(1'024, i)));
}

BOOST_AUTO_TEST_CASE(tensors_are_lent_over_and_over) {
  Neighbours pair;
  for (uint32_t i = 0; i < 3 * ReturnTable::slots; ++i) {
    pair.a.link->send(pair.push(i));
    run(pair.a, pair.b);
    BOOST_REQUIRE(pair.b.got.size() == 1u);
    BOOST_REQUIRE(same(as_push(pair.b.got[0]).values, numbered(5'000, i)));
    pair.b.got.clear();
  }
  BOOST_TEST(pair.written() < 3 * ReturnTable::slots * 200u);
}

BOOST_AUTO_TEST_CASE(a_link_that_ends_keeps_what_its_peer_may_be_reading) {
  Neighbours pair;
  auto push = pair.push(1);
  const auto* first = push.values.data();
  pair.a.link->send(std::move(push));
  run(pair.a, pair.b);
  pair.a.link->close();
  BOOST_TEST(pair.one->take(5'000).get() != first);
  BOOST_TEST(as_push(pair.b.got[0]).values.data()[7]
             == numbered(8, 1).data()[7]);
  pair.one->let_go({fence.job, fence.term, fence.epoch + 1});
  auto kept = pair.one->take(5'000);
  auto more = pair.one->take(5'000);
  BOOST_TEST((kept.get() == first || more.get() == first));
}

BOOST_AUTO_TEST_CASE(a_loan_that_is_nowhere_in_the_peers_memory_ends_the_link) {
  const auto refused = [](LentTensor lent, uint32_t bytes) {
    Lender lender;
    lender.lend(lent, bytes);
    BOOST_TEST(lender.end.link->broke_rules());
    BOOST_TEST(lender.end.got.empty());
  };
  refused({{2, 0}, 1, 0}, 4096);            // no such segment
  refused({{0, arena - 4092}, 1, 0}, 4096); // one value too far
  refused({{0, ~uint64_t{0} - 3}, 1, 0}, 4096);
  refused({{0, 2}, 1, 0}, 4096); // not aligned
  refused({{0, 0}, 1, ReturnTable::slots}, 4096);
  refused({{0, 0}, 1, 0}, 0);
  Lender fine;
  fine.lend({{0, arena - 4096}, 1, 0}, 4096);
  BOOST_TEST(!fine.end.link->broke_rules());
}

BOOST_AUTO_TEST_CASE(who_shares_no_memory_may_not_lend) {
  auto ends = socket_pair();
  LinkEnd end{std::move(ends[0])};
  RawEnd raw{std::move(ends[1])};
  FrameHeader header;
  header.kind = lent_kind(frame_kind(MessageKind::push));
  header.payload_bytes = 4096;
  const auto head = encode_frame(header);
  raw.send({head.begin(), head.end()});
  end.turn();
  BOOST_TEST(end.link->broke_rules());
}

BOOST_AUTO_TEST_CASE(a_grant_cannot_place_the_table_outside_the_memory) {
  Lender lender;
  auto credit = credit_header(1 << 20, arena - 8);
  const auto head = encode_frame(credit);
  lender.raw.send({head.begin(), head.end()});
  lender.end.turn();
  BOOST_TEST(lender.end.link->broke_rules());
}

BOOST_AUTO_TEST_CASE(memory_that_could_shrink_is_not_mapped) {
  std::vector<Descriptor> passed;
  passed.emplace_back(memfd_create("test", MFD_CLOEXEC | MFD_ALLOW_SEALING));
  BOOST_REQUIRE(ftruncate(passed[0].get(), 8192) == 0);
  BOOST_TEST(!PeerMemory::map(std::move(passed)));
  BOOST_TEST(!PeerMemory::map({}));
}

BOOST_AUTO_TEST_CASE(memory_is_given_out_once_and_again_when_it_is_back) {
  auto memory = LinkMemory::make(1 << 20);
  auto one = memory->take(50'000); // 256 KiB, as all are powers of two
  auto two = memory->take(50'000);
  auto three = memory->take(50'000);
  BOOST_TEST(!memory->take(100'000));
  const auto* first = two.get();
  two.reset();
  BOOST_TEST(memory->take(65'536).get() == first);
  const auto view = memory->copy(numbered(100'000, 3).span());
  BOOST_TEST(same(view, numbered(100'000, 3)));
  BOOST_TEST(!memory->find(view.data(), 4));
}

BOOST_AUTO_TEST_CASE(a_file_that_is_added_is_shared_as_well) {
  auto memory = LinkMemory::make(1 << 20);
  const Descriptor file{memfd_create("test", MFD_CLOEXEC | MFD_ALLOW_SEALING)};
  BOOST_REQUIRE(ftruncate(file.get(), 8192) == 0);
  auto* bytes = static_cast<std::byte*>(
    mmap(nullptr, 8192, PROT_READ | PROT_WRITE, MAP_SHARED, file.get(), 0));
  BOOST_REQUIRE(memory->add(bytes, 8192, file.get()));
  BOOST_TEST(ftruncate(file.get(), 4096) != 0);
  const auto place = memory->find(bytes + 4096, 4096);
  BOOST_REQUIRE(place.has_value());
  BOOST_TEST(!memory->find(bytes + 4096, 4097));
  bytes[4096] = std::byte{42};
  const auto peer = mapped(*memory);
  BOOST_REQUIRE(peer);
  BOOST_TEST((peer->at(*place, 4096)[0] == std::byte{42}));
  munmap(bytes, 8192);
}

BOOST_AUTO_TEST_SUITE_END()
