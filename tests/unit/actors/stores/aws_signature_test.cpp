#include "actors/stores/aws_signature.hpp"

#include <boost/test/unit_test.hpp>

#include <string>

using namespace troupe;

BOOST_AUTO_TEST_SUITE(aws_signature)

namespace {

// The keys of Amazon's published examples; nobody's.
const AwsKeys example{"AKIAIOSFODNN7EXAMPLE",
                      "wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY", ""};
constexpr int64_t in_2013 = 1'369'353'600; // 20130524T000000Z

AwsRequest s3_request(std::string path) {
  AwsRequest request;
  request.host = "examplebucket.s3.amazonaws.com";
  request.path = std::move(path);
  request.headers = {{"x-amz-content-sha256", empty_body_sha256}};
  return request;
}

std::string authorization(const AwsRequest& request, const AwsKeys& keys,
                          const std::string& service, int64_t time_s) {
  for (const auto& field :
       signed_headers(request, keys, "us-east-1", service, time_s))
    if (field.starts_with("Authorization: "))
      return field;
  return {};
}

std::string signature_of(const std::string& field) {
  return field.substr(field.rfind('=') + 1);
}

} // namespace

// Source of the next three: Amazon S3's API reference, "Signature
// Calculations for the Authorization Header: Transferring Payload in a Single
// Chunk".
BOOST_AUTO_TEST_CASE(a_range_of_an_object_is_signed_as_amazon_does) {
  auto request = s3_request("/test.txt");
  request.headers.emplace_back("range", "bytes=0-9");
  BOOST_TEST(
    authorization(request, example, "s3", in_2013)
    == "Authorization: AWS4-HMAC-SHA256 "
       "Credential=AKIAIOSFODNN7EXAMPLE/20130524/us-east-1/s3/aws4_request,"
       "SignedHeaders=host;range;x-amz-content-sha256;x-amz-date,"
       "Signature="
       "f0e8bdb87c964420e857bd35b5d6ed310bd44f0170aba48dd91039c6036bdb41");
}

BOOST_AUTO_TEST_CASE(a_query_without_a_value_is_signed_as_amazon_does) {
  auto request = s3_request("/");
  request.query = {{"lifecycle", ""}};
  BOOST_TEST(signature_of(authorization(request, example, "s3", in_2013))
             == "fea454ca298b7da1c68078a5d1bdbfbbe0d65c699e0f91ac7a200a0136783"
                "543");
}

BOOST_AUTO_TEST_CASE(a_listing_is_signed_as_amazon_does) {
  auto request = s3_request("/");
  request.query = {{"prefix", "J"}, {"max-keys", "2"}}; // sorted by it
  BOOST_TEST(signature_of(authorization(request, example, "s3", in_2013))
             == "34b48302e7b5fa45bde8084f4b7868a86f0a534bc59db6670ed5711ef69dc"
                "6f7");
}

// Source: the test suite of Signature Version 4, get-vanilla.
BOOST_AUTO_TEST_CASE(another_service_is_signed_as_amazon_does) {
  const AwsKeys keys{"AKIDEXAMPLE", "wJalrXUtnFEMI/K7MDENG+bPxRfiCYEXAMPLEKEY",
                     ""};
  AwsRequest request;
  request.host = "example.amazonaws.com";
  request.path = "/";
  BOOST_TEST(
    signature_of(authorization(request, keys, "service", 1'440'938'160))
    == "5fa00fa31553b73ebf1942676e86291e8372ff2a2260956d9b8aae1d763fb"
       "f31");
}

BOOST_AUTO_TEST_CASE(a_session_s_token_is_signed_and_sent) {
  auto keys = example;
  keys.token = "session/token==";
  const auto request = s3_request("/test.txt");
  const auto fields = signed_headers(request, keys, "us-east-1", "s3", in_2013);
  BOOST_TEST(fields.back() == "X-Amz-Security-Token: session/token==");
  const auto field = authorization(request, keys, "s3", in_2013);
  BOOST_TEST(field.find(";x-amz-security-token,") != field.npos);
  BOOST_TEST(signature_of(field)
             != signature_of(authorization(request, example, "s3", in_2013)));
  // The secret itself is nowhere.
  for (const auto& each : fields)
    BOOST_TEST(each.find(example.secret) == each.npos);
}

BOOST_AUTO_TEST_CASE(all_but_unreserved_characters_are_encoded) {
  BOOST_TEST(percent_encoded("a b/c+ü~-._*") == "a%20b%2Fc%2B%C3%BC~-._%2A");
  BOOST_TEST(percent_encoded("a b/c", true) == "a%20b/c");
  BOOST_TEST(canonical_query({{"b", "x y"}, {"a", "="}}) == "a=%3D&b=x%20y");
}

BOOST_AUTO_TEST_SUITE_END()
