// The number types that tensors come in, and how they become the type that is computed in.
#pragma once

#include "lanes.h"

namespace headwise {
namespace HEADWISE_ISA {

struct Half {
  uint16_t bits;
};  // IEEE binary16
struct Brain {
  uint16_t bits;
};  // bfloat16: the upper half of a float

HEADWISE_INLINE float float_of(uint32_t bits) {
  float x;
  __builtin_memcpy(&x, &bits, 4);
  return x;
}
HEADWISE_INLINE uint32_t bits_of(float x) {
  uint32_t bits;
  __builtin_memcpy(&bits, &x, 4);
  return bits;
}

HEADWISE_INLINE float widened(float x) { return x; }
HEADWISE_INLINE double widened(double x) { return x; }
HEADWISE_INLINE float widened(Brain x) { return float_of((uint32_t)x.bits << 16); }
HEADWISE_INLINE float widened(Half x) {
  uint32_t sign = (uint32_t)(x.bits & 0x8000) << 16, rest = x.bits & 0x7fff;
  // The bits, read as a float, are the number times 2^-112: one multiplication puts subnormals right as well.
  float size = float_of(rest << 13) * 0x1p112f;
  uint32_t bits = rest >= 0x7c00 ? 0x7f800000u | rest << 13 : bits_of(size);
  return float_of(bits | sign);
}

// As many numbers as a vector has lanes.
HEADWISE_INLINE Vector<float> load_widened(const float* from) { return load_loose<float>(from); }
HEADWISE_INLINE Vector<double> load_widened(const double* from) { return load_loose<double>(from); }
template <class In> HEADWISE_INLINE Ints<float> load_bits(const In* from) {
  typedef uint16_t Bits __attribute__((vector_size(2 * Lanes<float>::count)));
  Bits bits;
  __builtin_memcpy(&bits, from, sizeof bits);
  return __builtin_convertvector(bits, Ints<float>);
}
HEADWISE_INLINE Vector<float> load_widened(const Brain* from) { return (Vector<float>)(load_bits(from) << 16); }
HEADWISE_INLINE Vector<float> load_widened(const Half* from) {
  Ints<float> bits = load_bits(from), sign = (bits & 0x8000) << 16, rest = bits & 0x7fff;
  Vector<float> size = (Vector<float>)(rest << 13) * 0x1p112f;
  Ints<float> wide = rest >= 0x7c00 ? (rest << 13 | 0x7f800000) : (Ints<float>)size;
  return (Vector<float>)(wide | sign);
}

HEADWISE_INLINE void narrow(float x, float* to) { *to = x; }
HEADWISE_INLINE void narrow(double x, double* to) { *to = x; }
HEADWISE_INLINE void narrow(float x, Brain* to) {
  uint32_t bits = bits_of(x);
  to->bits = x != x ? 0x7fc0 : (bits + 0x7fff + ((bits >> 16) & 1)) >> 16;  // to nearest, ties to even
}
HEADWISE_INLINE void narrow(float x, Half* to) {
  uint32_t bits = bits_of(x), sign = bits >> 16 & 0x8000, size = bits & 0x7fffffff;
  if (size > 0x7f800000)
    to->bits = 0x7e00;
  else if (size >= 0x477ff000)
    to->bits = sign | 0x7c00;  // rounds to 65536 or more
  else if (size < 0x38800000)
    to->bits = sign | (bits_of(float_of(size) + 0.5f) - 0x3f000000);  // subnormal: the adder rounds
  else
    to->bits = sign | (size - 0x38000000 + 0xfff + (size >> 13 & 1)) >> 13;
}

}  // namespace HEADWISE_ISA
}  // namespace headwise
