// Top-k compression: the selections against an order by sorting, the encoding, the error feedback, and the plan.
#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <numeric>
#include <random>
#include <vector>

#include "cases.h"
#include "common/error.h"
#include "compress/candidates.h"
#include "compress/error_feedback.h"
#include "compress/magnitude.h"
#include "compress/mstopk.h"
#include "compress/payload.h"
#include "compress/radix_select.h"
#include "compress/topk_plan.h"
#include "expect.h"
#include "reduce/half.h"
#include "topk_values.h"

namespace test {
namespace {

using Indices = std::vector<uint32_t>;

Indices sorted_oracle(const Values& x, size_t k) {
  Indices order(x.size());
  std::iota(order.begin(), order.end(), 0u);
  std::stable_sort(order.begin(), order.end(),
                   [&](uint32_t a, uint32_t b) { return ccore::magnitude(x[a]) > ccore::magnitude(x[b]); });
  order.resize(k);
  std::sort(order.begin(), order.end());
  return order;
}

Indices exact(const Values& x, size_t k) {
  Indices found(k);
  ccore::select_exact(x.data(), x.size(), k, ccore::simd_levels().back(), found.data());
  return found;
}

Indices by_radix(const Values& x, size_t k) {
  Indices found(k);
  ccore::select_by(ccore::cut_at(x.data(), x.size(), k), x.data(), x.size(), k, found.data());
  return found;
}

// Few different magnitudes, both signs.
Values coarse(size_t count, unsigned seed) {
  std::mt19937 engine(seed);
  Values x(count);
  for (float& value : x) value = static_cast<float>(static_cast<int>(engine() % 15) - 7);
  return x;
}

std::vector<Values> vectors() {
  std::vector<Values> all;
  for (const size_t count : {size_t{1}, size_t{2}, size_t{15}, size_t{16}, size_t{17}, size_t{1000}}) {
    all.push_back(normal(count, 5));
    all.push_back(coarse(count, 6));
    all.push_back(Values(count, 0.25f));
    all.push_back(Values(count, 0.0f));
  }
  all.push_back({0.0f, -0.0f, kDenormal, -kDenormal, 2 * kDenormal, 0.0f, -3 * kDenormal, 1e-30f});
  all.push_back({1.0f, std::nextafter(1.0f, 2.0f), -1.0f, std::nextafter(1.0f, 0.0f), 1.0f});
  all.push_back({std::numeric_limits<float>::max(), -std::numeric_limits<float>::max(), 1.0f});
  return all;
}

void exact_selection_is_the_sorted_one() {
  for (const Values& x : vectors()) {
    for (size_t k = 1; k <= x.size(); k += 1 + k / 7) {
      EXPECT(by_radix(x, k) == sorted_oracle(x, k), "n=", x.size(), " k=", k);
      EXPECT(exact(x, k) == sorted_oracle(x, k), "n=", x.size(), " k=", k);
    }
    EXPECT(exact(x, x.size()) == sorted_oracle(x, x.size()), "k = n = ", x.size());
  }
  const Values odd = {1.0f, kNan, -kInfinity, 2.0f, kInfinity};
  EXPECT(exact(odd, 3) == (Indices{1, 2, 4}), "NaN and infinities are the largest");
}

// Long enough for the sample; with a sample that is right, one that lies, and candidates that overflow.
void a_sample_changes_nothing() {
  const size_t count = 300000;
  Values lying = normal(count, 9);  // all that the sample meets is large
  for (size_t i = 0; i < count; i += 47) lying[i] = 1.0f;
  Values hiding(count, 0.0f);  // the sample meets nothing of what is wanted
  for (size_t i = 1; i < count; i += 47) hiding[i] = static_cast<float>(i);
  const std::vector<Values> all = {normal(count, 8), coarse(count, 8), Values(count, 1.0f), lying, hiding};
  for (size_t v = 0; v < all.size(); ++v) {
    for (const size_t k : {size_t{1}, size_t{600}, size_t{3000}, count / 8, count / 2, count - 1}) {
      const Indices found = exact(all[v], k);
      EXPECT(found == by_radix(all[v], k), "vector ", v, " k=", k);
      EXPECT(found == sorted_oracle(all[v], k), "vector ", v, " k=", k);
    }
  }
}

void mstopk_keeps_its_band() {
  for (const Values& x : vectors()) {
    const float largest =
        *std::max_element(x.begin(), x.end(), [](float a, float b) { return std::fabs(a) < std::fabs(b); });
    double mean = 0;
    for (const float value : x) mean += static_cast<double>(std::fabs(value));
    mean /= static_cast<double>(x.size());
    for (const int samplings : {1, 5, 30}) {
      for (size_t k = 1; k <= x.size(); k += 1 + k / 5) {
        const ccore::Band band = ccore::mstopk_band(x.data(), x.size(), k, samplings);
        const auto from = [&](float threshold) {
          return static_cast<size_t>(
              std::count_if(x.begin(), x.end(), [&](float value) { return std::fabs(value) >= threshold; }));
        };
        EXPECT(from(band.upper) <= k && from(band.lower) >= k, "n=", x.size(), " k=", k);
        const double width = static_cast<double>(band.upper) - static_cast<double>(band.lower);
        const double top = std::fabs(static_cast<double>(largest));
        const double range = from(static_cast<float>(mean)) >= k ? top - mean : mean;
        // What is above the largest finite value is infinity.
        const bool open = std::isinf(band.upper) && top >= static_cast<double>(std::numeric_limits<float>::max());
        const double allowed = range / std::pow(2.0, samplings) + 1e-6 * top + 1e-44;
        EXPECT(width >= 0 && (open || width <= allowed), "n=", x.size(), " k=", k, " width ", width, " of ", range);
        Indices found(k, UINT32_MAX);
        ccore::select_mstopk(x.data(), x.size(), k, samplings, found.data());
        EXPECT(std::is_sorted(found.begin(), found.end()) && found.back() < x.size(), "n=", x.size());
        EXPECT(std::adjacent_find(found.begin(), found.end()) == found.end(), "an element was taken twice");
        size_t above = 0;
        for (const uint32_t i : found) {
          EXPECT(std::fabs(x[i]) >= band.lower, "below the band: ", x[i]);
          if (std::fabs(x[i]) >= band.upper) ++above;
        }
        EXPECT(above == from(band.upper), "an element above the band was left out");
      }
    }
  }
  // Thirty samplings leave nothing between the thresholds of a thousand normal values.
  const Values x = normal(1000, 12);
  Indices found(10);
  ccore::select_mstopk(x.data(), x.size(), 10, 30, found.data());
  EXPECT(found == sorted_oracle(x, 10), "MSTopK did not converge");
}

std::vector<std::byte> encoded(Values* acc, const Indices& indices, cc_dtype values) {
  std::vector<std::byte> payload(ccore::payload_bytes(indices.size(), values));
  ccore::encode(acc->data(), indices, values, payload.data());
  return payload;
}

Values decoded(const std::vector<std::byte>& payload, size_t kept, cc_dtype values, size_t count) {
  Values out(count, 99.0f);
  ccore::decode_sum({payload.data()}, kept, values, 1, CC_FLOAT32, count, out.data());
  return out;
}

void nothing_is_lost_by_encoding() {
  const Values x = {0.1f, 0.0f, 70000.0f, -1e6f, 5.0f, 1e-9f, -0.3f, 65504.0f};
  const Indices indices = {0, 2, 3, 5, 6, 7};
  for (const cc_dtype values : {CC_FLOAT32, CC_FLOAT16}) {
    Values left = x;
    const auto payload = encoded(&left, indices, values);
    EXPECT(payload.size() == 8 + 6 * (values == CC_FLOAT32 ? 8u : 6u), payload.size());
    const Values sent = decoded(payload, indices.size(), values, x.size());
    for (size_t i = 0; i < x.size(); ++i) {
      EXPECT(sent[i] + left[i] == x[i], "element ", i, ": ", sent[i], " and ", left[i]);
      const bool kept = std::count(indices.begin(), indices.end(), static_cast<uint32_t>(i)) > 0;
      EXPECT(kept || sent[i] == 0.0f, "element ", i, " was not selected");
      if (values == CC_FLOAT32) EXPECT(!kept || left[i] == 0.0f, "element ", i);
    }
    if (values == CC_FLOAT16) {
      EXPECT(sent[2] == 65504.0f && left[2] == 4496.0f, "saturation leaves the rest: ", left[2]);
      EXPECT(sent[3] == -65504.0f && left[3] == -934496.0f, left[3]);
      EXPECT(sent[0] == ccore::f16_to_f32(ccore::f32_to_f16(0.1f)) && left[0] != 0.0f, left[0]);
      EXPECT(sent[5] == 0.0f && left[5] == 1e-9f, "too small for f16: all of it stays");
    }
  }
}

void sums_add_in_order_and_divide_once() {
  const size_t count = 5000;  // more than a block
  const size_t kept = 900;
  Values expected(count, 0.0f);
  std::vector<std::vector<std::byte>> payloads;
  std::vector<const std::byte*> pointers;
  for (unsigned node = 0; node < 3; ++node) {
    Values x = normal(count, 20 + node);
    const Indices indices = exact(x, kept);
    for (const uint32_t i : indices) expected[i] += x[i];
    payloads.push_back(encoded(&x, indices, CC_FLOAT32));
  }
  for (const auto& payload : payloads) pointers.push_back(payload.data());
  for (float& value : expected) value /= 6.0f;
  Values sum(count);
  ccore::decode_sum(pointers, kept, CC_FLOAT32, 6, CC_FLOAT32, count, sum.data());
  EXPECT(std::memcmp(sum.data(), expected.data(), count * sizeof(float)) == 0, "not the same bits");
  for (const cc_dtype dtype : {CC_FLOAT16, CC_BFLOAT16}) {
    std::vector<unsigned char> memory(2 * count + 1);  // at an odd address
    ccore::decode_sum(pointers, kept, CC_FLOAT32, 6, dtype, count, memory.data() + 1);
    for (size_t i = 0; i < count; ++i) {
      uint16_t bits;
      std::memcpy(&bits, memory.data() + 1 + 2 * i, 2);
      EXPECT(bits == (dtype == CC_FLOAT16 ? ccore::f32_to_f16(expected[i]) : ccore::f32_to_bf16(expected[i])),
             "element ", i);
    }
  }
}

void hostile_indices_are_refused() {
  Values acc = {1.0f, 2.0f, 3.0f};
  for (const Indices& indices : {Indices{0, 3}, Indices{1, 1}, Indices{2, 0}}) {
    Values big(4, 1.0f);
    const auto payload = encoded(&big, indices, CC_FLOAT32);
    bool refused = false;
    try {
      decoded(payload, 2, CC_FLOAT32, acc.size());
    } catch (const ccore::Error& error) {
      refused = error.code() == CC_ERROR_INTERNAL;
    }
    EXPECT(refused, "indices ", indices[0], ", ", indices[1]);
  }
}

Compressed feedback(const Values& gradient, const Values& residual, const ccore::TopkSettings& settings) {
  ccore::CompressScratch scratch;
  Compressed step{
      false,
      std::vector<std::byte>(ccore::payload_bytes(ccore::kept_of(gradient.size(), settings.ratio), settings.values)),
      Values(gradient.size())};
  step.finite = ccore::accumulate(gradient.data(), CC_FLOAT32, residual.empty() ? nullptr : residual.data(),
                                  gradient.size(), settings, ccore::simd_levels().back(), &scratch, step.left.data());
  if (step.finite) {
    ccore::compress(settings, gradient.size(), &scratch, step.left.data(), step.payload.data());
  }
  return step;
}

void feedback_keeps_what_is_not_sent() {
  for (const size_t count : {size_t{1}, size_t{77}, size_t{100000}}) {
    for (const cc_topk_method method : {CC_TOPK_EXACT, CC_TOPK_MSTOPK}) {
      for (const cc_dtype values : {CC_FLOAT32, CC_FLOAT16}) {
        ccore::TopkSettings settings;
        settings.method = method;
        settings.values = values;
        const size_t kept = ccore::kept_of(count, settings.ratio);
        const Values gradient = coarse(count, 31);
        const Values residual = coarse(count, 32);
        const Compressed step = feedback(gradient, residual, settings);
        EXPECT(step.finite, "finite");
        const Compressed again = feedback(gradient, residual, settings);
        EXPECT(step.payload == again.payload && step.left == again.left, "two runs differ");
        const Values sent = decoded(step.payload, kept, values, count);
        size_t nonzero = 0;
        for (size_t i = 0; i < count; ++i) {
          EXPECT(sent[i] + step.left[i] == gradient[i] + residual[i], "element ", i);
          nonzero += sent[i] != 0.0f ? 1u : 0u;
        }
        EXPECT(nonzero <= kept, nonzero, " of ", kept);
        if (method == CC_TOPK_EXACT) {
          Values acc(count);
          for (size_t i = 0; i < count; ++i) acc[i] = gradient[i] + residual[i];
          for (const uint32_t i : sorted_oracle(acc, kept)) EXPECT(sent[i] == acc[i], "element ", i);
        }
      }
    }
  }
  ccore::TopkSettings settings;
  for (const float bad : {kNan, kInfinity, -kInfinity}) {
    Values gradient = normal(5000, 40);
    EXPECT(feedback(gradient, {}, settings).finite, "finite");
    gradient[4999] = bad;
    EXPECT(!feedback(gradient, {}, settings).finite, bad);
  }
  const Values large(3, std::numeric_limits<float>::max());
  EXPECT(!feedback(large, large, settings).finite, "an overflow of the sum is not finite");
}

void a_nonfinite_payload_says_so() {
  Values acc = {1.0f};
  EXPECT(!ccore::is_nonfinite(encoded(&acc, {0}, CC_FLOAT16).data()), "finite");
  std::vector<std::byte> payload(ccore::payload_bytes(3, CC_FLOAT16), std::byte{0xa5});
  ccore::encode_nonfinite(3, CC_FLOAT16, payload.data());
  EXPECT(ccore::is_nonfinite(payload.data()), "not finite");
}

void the_plan() {
  EXPECT(ccore::kept_of(1, 0.01) == 1 && ccore::kept_of(99, 0.01) == 1 && ccore::kept_of(250, 0.01) == 2, "kept");
  EXPECT(ccore::kept_of(7, 1.0) == 7 && ccore::kept_of(0, 0.5) == 0, "kept");
  // Ranks 0..4 on nodes a b a b a: the smaller node has two, so there are two shards.
  const std::vector<ccore::Place> places = ccore::places_of({"a", "b", "a", "b", "a"});
  const ccore::Rails owner = ccore::rails_of(places, 2);
  EXPECT(owner.nodes == 2 && owner.shards == 2, owner.shards);
  EXPECT(owner.local == (std::vector<int>{0, 2, 4}) && owner.rail == (std::vector<int>{2, 3}), "rail of 2");
  EXPECT(ccore::rails_of(places, 1).rail == (std::vector<int>{0, 1}), "rail of 1");
  EXPECT(ccore::rails_of(places, 4).rail.empty(), "rank 4 owns no shard");

  ccore::TopkSettings settings;
  settings.threshold_bytes = 4000;
  EXPECT(ccore::compresses(settings, owner, 1000, CC_FLOAT32), "at the threshold");
  EXPECT(!ccore::compresses(settings, owner, 999, CC_FLOAT32), "below it");
  EXPECT(!ccore::compresses(settings, owner, 1000, CC_FLOAT16), "the threshold is in bytes");
  EXPECT(!ccore::compresses(settings, ccore::rails_of(ccore::places_of({"a", "a"}), 0), 1000, CC_FLOAT32), "one node");
  settings.ratio = 0.51;  // of 8 bytes each, on two nodes: more than the 4 bytes of each dense element
  EXPECT(!ccore::compresses(settings, owner, 100000, CC_FLOAT32), "larger than dense");
  settings.values = CC_FLOAT16;
  EXPECT(ccore::compresses(settings, owner, 100000, CC_FLOAT32), "6 bytes each are fewer");

  cc_topk_options options{};
  options.size = sizeof options;
  options.ratio = 0.5;
  options.threshold_bytes = 1;
  options.method = CC_TOPK_MSTOPK;
  options.values = CC_TOPK_VALUES_F16;
  const ccore::TopkSettings given = ccore::topk_settings_from(&options);
  EXPECT(given.method == CC_TOPK_MSTOPK && given.values == CC_FLOAT16 && given.threshold_bytes == 1, "given");
  EXPECT(ccore::digest(given) != ccore::digest(ccore::topk_settings_from(nullptr)), "digests");
  const auto refused = [](cc_topk_options wrong) {
    try {
      ccore::topk_settings_from(&wrong);
    } catch (const ccore::Error& error) {
      return error.code() == CC_ERROR_INVALID_ARGUMENT;
    }
    return false;
  };
  for (const double ratio : {-0.1, 1.5, static_cast<double>(kNan)}) {
    cc_topk_options wrong = options;
    wrong.ratio = ratio;
    EXPECT(refused(wrong), "ratio ", ratio);
  }
  cc_topk_options wrong = options;
  wrong.method = 9;
  EXPECT(refused(wrong), "method");
  wrong = options;
  wrong.size = 0;
  EXPECT(refused(wrong), "size");
}

}  // namespace

void topk() {
  exact_selection_is_the_sorted_one();
  a_sample_changes_nothing();
  mstopk_keeps_its_band();
  nothing_is_lost_by_encoding();
  sums_add_in_order_and_divide_once();
  hostile_indices_are_refused();
  feedback_keeps_what_is_not_sent();
  a_nonfinite_payload_says_so();
  the_plan();
}

}  // namespace test
