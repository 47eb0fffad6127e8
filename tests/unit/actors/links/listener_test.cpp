#include "actors/sockets/addresses.hpp"
#include "kernels/base/error.hpp"
#include "tests/unit/actors/links/link_streams.hpp"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include <atomic>
#include <cstring>
#include <span>

using namespace troupe;
using namespace troupe::test;

BOOST_AUTO_TEST_SUITE(listener)

namespace {

/// A plain connection to a node's TCP port.
Descriptor knock(const LinkNode& node) {
  Descriptor made{::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)};
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(parse_link_endpoint(node.endpoint())->port);
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  BOOST_REQUIRE(
    ::connect(made.get(), reinterpret_cast<sockaddr*>(&address), sizeof address)
    == 0);
  return made;
}

/// Sends bytes with descriptors; may fail, as when the other end has closed.
void pass(int to, std::string bytes, std::span<const int> passed) {
  iovec piece{bytes.data(), bytes.size()};
  std::vector<char> space(CMSG_SPACE(passed.size_bytes()));
  msghdr message{};
  message.msg_iov = &piece;
  message.msg_iovlen = 1;
  message.msg_control = space.data();
  message.msg_controllen = space.size();
  auto* head = CMSG_FIRSTHDR(&message);
  head->cmsg_level = SOL_SOCKET;
  head->cmsg_type = SCM_RIGHTS;
  head->cmsg_len = CMSG_LEN(passed.size_bytes());
  std::memcpy(CMSG_DATA(head), passed.data(), passed.size_bytes());
  ::sendmsg(to, &message, MSG_NOSIGNAL);
}

} // namespace

// --- strangers ---------------------------------------------------------------

BOOST_AUTO_TEST_CASE(a_process_of_another_job_is_refused_and_counted) {
  Party party{1, options(LinkChoice::tcp)};
  party.add(
    options(LinkChoice::tcp, LinkEncryption::automatic, job("strange")));
  auto asked = party.ask(party.request(1)).get();
  BOOST_TEST(asked.error.find("TLS") != std::string::npos, asked.error);
  BOOST_TEST(soon([&] { return party.nodes[0]->counters().strangers > 0; }));
  BOOST_TEST(party.nodes[0]->counters().accepted == 0u);
}

BOOST_AUTO_TEST_CASE(a_member_that_says_it_is_another_is_a_stranger) {
  const auto other = [] {
    return std::make_unique<LinkNode>(as(options(LinkChoice::tcp), 2));
  };
  Party party{1, options(LinkChoice::tcp)};
  party.nodes.push_back(other()); // says that it is worker:1
  auto request = party.request(1);
  request.deadline = Clock::now() + 500ms;
  BOOST_TEST(party.ask(std::move(request)).get().error != "");
  BOOST_TEST(party.nodes[0]->counters().strangers > 0u);
  BOOST_TEST(party.nodes[0]->counters().accepted == 0u);
  // And one that is dialled.
  party.nodes[0] = other();
  party.nodes[1] = std::make_unique<LinkNode>(as(options(LinkChoice::tcp), 1));
  const auto error = party.ask(party.request(1)).get().error;
  BOOST_TEST(error.find("its certificate is that of worker:2")
               != std::string::npos,
             error);
}

BOOST_AUTO_TEST_CASE(strangers_bytes_floods_and_silence_disturb_nobody) {
  NothingLeft nothing_left;
  {
    std::atomic<int> lines{0};
    auto with = options(LinkChoice::tcp);
    with.log = [&](const std::string&) { ++lines; };
    Party party{3, with};
    std::vector<Descriptor> knocks;
    for (int i = 0; i < 300; ++i) {
      knocks.push_back(knock(*party.nodes[0]));
      const std::string bytes = i % 3 == 0   ? "GET / HTTP/1.0\r\n\r\n"
                                : i % 3 == 1 ? std::string(500, '\xff')
                                             : "";
      BOOST_REQUIRE(
        ::send(knocks.back().get(), bytes.data(), bytes.size(), MSG_NOSIGNAL)
        >= 0);
    }
    auto formed = party.form();
    for (auto& one : formed)
      BOOST_TEST_REQUIRE(one.error == "");
    check_streams(formed);
    // Who says nothing is dropped too, after a while.
    BOOST_TEST(
      soon([&] { return party.nodes[0]->counters().strangers == 300; }));
    BOOST_TEST(lines > 0);
    BOOST_TEST(lines <= 3);
  }
  BOOST_TEST(nothing_left.check());
}

BOOST_AUTO_TEST_CASE(descriptors_that_a_stranger_passes_are_closed) {
  Party party{1};
  const auto name = parse_link_endpoint(party.nodes[0]->endpoint())->unix_name;
  const auto before = entries("/proc/self/fd");
  {
    const auto at = SocketAddress::of_unix_name(name);
    Descriptor knock{::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0)};
    BOOST_REQUIRE(::connect(knock.get(), at->get(), at->size()) == 0);
    const std::vector<int> passed(20, 0);
    for (size_t count : {1u, 2u, 20u})
      pass(knock.get(), "x", {passed.data(), count});
    BOOST_TEST(soon([&] { return party.nodes[0]->counters().strangers == 1; }));
  }
  BOOST_TEST(soon([&] { return entries("/proc/self/fd") == before; }));
}

BOOST_AUTO_TEST_CASE(links_go_over_version_6_of_the_protocol_too) {
  auto with = options(LinkChoice::tcp);
  with.listen = "::1";
  try {
    Party party{2, with};
    for (auto& one : party.form())
      BOOST_TEST(one.error == "");
  } catch (const InputError& failure) {
    BOOST_TEST_MESSAGE("skipped, no ::1 here: " << failure.what());
  }
}

BOOST_AUTO_TEST_CASE(who_does_not_know_the_key_is_a_stranger_on_this_host_too) {
  Party party{2};
  auto request = party.request(1);
  auto wrong = *parse_link_endpoint(request.members[0].endpoint);
  wrong.key.assign(wrong.key.size(), '0');
  request.members[0].endpoint = wrong.text();
  request.deadline = Clock::now() + 300ms;
  BOOST_TEST(party.ask(std::move(request)).get().error != "");
  BOOST_TEST(party.nodes[0]->counters().strangers > 0u);
}

BOOST_AUTO_TEST_CASE(a_public_address_needs_certificates) {
  auto with = options();
  with.tls = nullptr;
  with.listen = "0.0.0.0";
  BOOST_CHECK_THROW(LinkNode{with}, InputError);
  with.listen = "127.0.0.1";
  BOOST_TEST(parse_link_endpoint(LinkNode{with}.endpoint())->port == 0);
  with = options();
  with.listen = "0.0.0.0";
  BOOST_TEST(parse_link_endpoint(LinkNode{with}.endpoint())->host != "0.0.0.0");
}

BOOST_AUTO_TEST_SUITE_END()
