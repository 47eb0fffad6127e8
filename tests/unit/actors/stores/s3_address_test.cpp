#include "actors/stores/s3_address.hpp"
#include "tests/unit/kernels/data_files.hpp"

using namespace troupe;
using namespace troupe::testing;

BOOST_AUTO_TEST_SUITE(s3_address_suite)

BOOST_AUTO_TEST_CASE(a_url_is_bucket_and_key) {
  const auto place = parse_s3_place("s3://bucket/a b/c?d*");
  BOOST_TEST(place.bucket == "bucket");
  BOOST_TEST(place.key == "a b/c?d*");
  BOOST_TEST(place.url() == "s3://bucket/a b/c?d*");
  for (const auto* url : {"s3://", "s3:///key", "s3://bu cket/key",
                          "s3://a@b/key", "https://bucket/key"})
    BOOST_CHECK_THROW(parse_s3_place(url), InputError);
}

BOOST_AUTO_TEST_CASE(amazon_s_own_buckets_are_host_names) {
  const auto address = s3_address({"bucket", "a b/ü"}, {{}, "eu-west-1", {}},
                                  {});
  BOOST_TEST(address.url
             == "https://bucket.s3.eu-west-1.amazonaws.com/a%20b/%C3%BC");
  BOOST_TEST(address.request.host == "bucket.s3.eu-west-1.amazonaws.com");
  BOOST_TEST(address.request.path == "/a%20b/%C3%BC");
  BOOST_TEST(address.region == "eu-west-1");
}

BOOST_AUTO_TEST_CASE(a_region_that_was_learnt_is_the_one) {
  BOOST_TEST(s3_address({"bucket", "k"}, {}, {}).url
             == "https://bucket.s3.us-east-1.amazonaws.com/k");
  BOOST_TEST(
    s3_address({"bucket", "k"}, {{}, "eu-west-1", {}}, "eu-north-1").url
    == "https://bucket.s3.eu-north-1.amazonaws.com/k");
  BOOST_TEST(s3_address({"bucket", "k"}, {{}, "cn-north-1", {}}, {}).url
             == "https://bucket.s3.cn-north-1.amazonaws.com.cn/k");
}

BOOST_AUTO_TEST_CASE(a_bucket_that_is_no_host_name_stands_in_the_path) {
  for (const auto* bucket : {"with.dots", "With_Capitals"})
    BOOST_TEST(s3_address({bucket, "k"}, {}, {}).url
               == "https://s3.us-east-1.amazonaws.com/" + std::string{bucket}
                    + "/k");
}

BOOST_AUTO_TEST_CASE(another_endpoint_has_buckets_in_its_path) {
  const auto address = s3_address({"bucket", "k"},
                                  {{}, {}, "http://127.0.0.1:9000/s3"}, {},
                                  {{"list-type", "2"}, {"prefix", "a/b"}});
  BOOST_TEST(address.url
             == "http://127.0.0.1:9000/s3/bucket/k?list-type=2&prefix=a%2Fb");
  BOOST_TEST(address.request.host == "127.0.0.1:9000");
  BOOST_TEST(address.request.path == "/s3/bucket/k");
  // A scheme's own port is not named in the request's field.
  BOOST_TEST(
    s3_address({"b", "k"}, {{}, {}, "https://store:443"}, {}).request.host
    == "store");
}

BOOST_AUTO_TEST_SUITE_END()
