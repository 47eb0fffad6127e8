#include "actors/stores/s3_listing.hpp"

#include <boost/test/unit_test.hpp>

#include <string>
#include <utility>

using namespace troupe;

BOOST_AUTO_TEST_SUITE(s3_listing)

namespace {

// As Amazon's API reference shows one, with keys that are encoded.
constexpr auto listing = R"(<?xml version="1.0" encoding="UTF-8"?>
<ListBucketResult xmlns="http://s3.amazonaws.com/doc/2006-03-01/">
  <!-- made by hand -->
  <Name>bucket</Name><Prefix/><KeyCount>2</KeyCount><MaxKeys>1000</MaxKeys>
  <EncodingType>url</EncodingType>
  <IsTruncated>true</IsTruncated>
  <NextContinuationToken>1ueGcxLPRx1Tr/XYExHnhbYLgveDs2J&amp;wm36Hy4vbOwM=</NextContinuationToken>
  <Contents><Key>a+b%2Fc%2B%C3%BC.tfrecord</Key>
    <LastModified>2009-10-12T17:50:30.000Z</LastModified>
    <ETag>&quot;fba9dede5f27731c9771645a39863328&quot;</ETag>
    <Size>434234</Size><StorageClass>STANDARD</StorageClass>
    <Owner><ID>x</ID><Key>not this</Key></Owner></Contents>
  <Contents><Key>z</Key><Size>0</Size></Contents>
  <CommonPrefixes><Prefix>deeper/</Prefix></CommonPrefixes>
</ListBucketResult>)";

std::string replaced(std::string text, const std::string& what,
                     const std::string& by) {
  const auto at = text.find(what);
  BOOST_REQUIRE(at != text.npos);
  return text.replace(at, what.size(), by);
}

} // namespace

BOOST_AUTO_TEST_CASE(objects_have_key_length_and_tag) {
  const auto found = parse_s3_listing(listing);
  BOOST_REQUIRE(found.has_value());
  BOOST_REQUIRE(found->objects.size() == 2u);
  BOOST_CHECK(found->objects[0]
              == (ListedObject{"a b/c+ü.tfrecord", 434'234,
                               "\"fba9dede5f27731c9771645a39863328\""}));
  BOOST_CHECK(found->objects[1] == (ListedObject{"z", 0, ""}));
  BOOST_TEST(found->next == "1ueGcxLPRx1Tr/XYExHnhbYLgveDs2J&wm36Hy4vbOwM=");
}

BOOST_AUTO_TEST_CASE(keys_that_are_not_encoded_stay_as_they_are) {
  const auto found = parse_s3_listing(
    "<ListBucketResult><Contents><Key>a+b%20&#x26;&#233;</Key>"
    "<Size>1</Size></Contents><IsTruncated>false</IsTruncated>"
    "<NextContinuationToken>left over</NextContinuationToken>"
    "</ListBucketResult>");
  BOOST_REQUIRE(found.has_value());
  BOOST_TEST(found->objects[0].key == "a+b%20&é");
  BOOST_TEST(found->next.empty());
}

BOOST_AUTO_TEST_CASE(an_empty_bucket_has_none) {
  const auto found = parse_s3_listing("<ListBucketResult></ListBucketResult>");
  BOOST_REQUIRE(found.has_value());
  BOOST_TEST(found->objects.empty());
}

BOOST_AUTO_TEST_CASE(what_is_no_whole_listing_is_refused) {
  const std::string whole = listing;
  const std::pair<const char*, const char*> cases[]{
    {"<Size>434234</Size>", ""},
    {"434234", "4x"},
    {"434234", "-1"},
    {"434234", "99999999999999999999999"},
    {"<Key>z</Key>", ""},
    {"<Key>z</Key>", "<Key></Key>"},
    {"%C3", "%C"},
    {"&quot;", "&evil;"},
    {"</Name>", "</Nome>"},
    {"<?xml version=\"1.0\" encoding=\"UTF-8\"?>",
     "<!DOCTYPE x [<!ENTITY a \"b\">]>"},
    {"</ListBucketResult>", ""},
    {"</ListBucketResult>", "</ListBucketR"},
    {"&amp;", "&#0;"},
    {"&amp;", "&#xd800;"},
    {"&amp;", "&am"},
    {"</ListBucketResult>", "</ListBucketResult><more/>"}};
  for (const auto& [what, by] : cases)
    BOOST_TEST(!parse_s3_listing(replaced(whole, what, by)), what << by);
  BOOST_TEST(!parse_s3_listing(""));
  BOOST_TEST(!parse_s3_listing("<html><body>hello</body></html>"));
  BOOST_TEST(!parse_s3_listing("<ListBucketResult><IsTruncated>true"
                               "</IsTruncated></ListBucketResult>"));
  for (size_t cut = 0; cut < whole.size(); ++cut)
    BOOST_TEST(!parse_s3_listing(whole.substr(0, cut)), cut);
}

BOOST_AUTO_TEST_CASE(a_document_may_not_go_deep) {
  std::string deep = "<ListBucketResult>";
  for (int i = 0; i < 1'000; ++i)
    deep += "<a>";
  BOOST_TEST(!parse_s3_listing(deep));
}

BOOST_AUTO_TEST_CASE(of_an_error_code_and_region_are_shown_and_nothing_else) {
  const auto error = parse_s3_error(
    "<?xml version=\"1.0\"?><Error><Code>SignatureDoesNotMatch</Code>"
    "<Message>of AKIA</Message><AWSAccessKeyId>AKIA</AWSAccessKeyId>"
    "<Region>eu-west-1</Region></Error>");
  BOOST_TEST(error.code == "SignatureDoesNotMatch");
  BOOST_TEST(error.region == "eu-west-1");
  BOOST_TEST(
    parse_s3_error("<Error><Code>a key: AKIA</Code></Error>").code.empty());
  BOOST_TEST(parse_s3_error("nothing").code.empty());
}

BOOST_AUTO_TEST_SUITE_END()
