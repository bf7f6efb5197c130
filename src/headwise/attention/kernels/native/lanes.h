// Vectors of the instruction set that the including file is compiled for, and the few functions on them.
//
// Included by one file for each instruction set, inside its own namespace: nothing here may be shared between them, and no
// template of the standard library may be used, or the linker could keep the copy that only the newest processor can run.
#pragma once

#include <stdint.h>

namespace headwise {
namespace HEADWISE_ISA {

template <class Real> struct Word;
template <> struct Word<float> {
  typedef int32_t type;
  static constexpr float magic = 12582912.0f;  // 1.5 * 2^23: adding it rounds to a whole number
  static constexpr int mantissa = 23, bias = 127;
  static constexpr float lowest = -125.0f;  // 2^lowest is a normal number whatever the polynomial adds
};
template <> struct Word<double> {
  typedef int64_t type;
  static constexpr double magic = 6755399441055744.0;
  static constexpr int mantissa = 52, bias = 1023;
  static constexpr double lowest = -1021.0;
};

template <class Real> struct Lanes {
  typedef typename Word<Real>::type Int;
  static constexpr int count = HEADWISE_BYTES / sizeof(Real);
  typedef Real type __attribute__((vector_size(HEADWISE_BYTES), may_alias));
  typedef Real loose __attribute__((vector_size(HEADWISE_BYTES), aligned(alignof(Real)), may_alias));
  typedef Int ints __attribute__((vector_size(HEADWISE_BYTES), may_alias));
};

template <class Real> using Vector = typename Lanes<Real>::type;
template <class Real> using Ints = typename Lanes<Real>::ints;

#define HEADWISE_INLINE static inline __attribute__((always_inline))

template <class Real> HEADWISE_INLINE Vector<Real> load(const Real* from) { return *(const Vector<Real>*)from; }
template <class Real> HEADWISE_INLINE void store(Real* to, Vector<Real> x) { *(Vector<Real>*)to = x; }
template <class Real> HEADWISE_INLINE Vector<Real> load_loose(const Real* from) { return *(const typename Lanes<Real>::loose*)from; }

template <class Real> HEADWISE_INLINE Vector<Real> all(Real x) { return x - Vector<Real>{}; }
template <class Real> HEADWISE_INLINE Ints<Real> all_int(int64_t x) { return (typename Lanes<Real>::Int)x - Ints<Real>{}; }

// The same numbers, of which the compiler knows nothing: it turns comparisons with constants into slower forms.
template <class V> HEADWISE_INLINE V opaque(V x) {
#if defined(__AVX512F__)
  __asm__("" : "+v"(x));
#elif defined(__AVX__)
  if constexpr (sizeof(V) <= 32) __asm__("" : "+x"(x));
#endif
  return x;
}

// The larger; the second where the first is NaN.
template <class V> HEADWISE_INLINE V larger(V a, V b) { return a > b ? a : b; }

HEADWISE_INLINE int64_t least(int64_t a, int64_t b) { return a < b ? a : b; }
HEADWISE_INLINE int64_t most(int64_t a, int64_t b) { return a > b ? a : b; }

template <class Real> HEADWISE_INLINE Ints<Real> ramp() {
  Ints<Real> x;
  for (int i = 0; i < Lanes<Real>::count; i++) x[i] = i;
  return x;
}

// Lane i meets lane i ^ step.
template <int step, class V> HEADWISE_INLINE V swapped(V x) {
  constexpr int count = sizeof(V) / sizeof(x[0]);
  if constexpr (count == 16)
    return V{x[0 ^ step], x[1 ^ step], x[2 ^ step],  x[3 ^ step],  x[4 ^ step],  x[5 ^ step],  x[6 ^ step],  x[7 ^ step],
             x[8 ^ step], x[9 ^ step], x[10 ^ step], x[11 ^ step], x[12 ^ step], x[13 ^ step], x[14 ^ step], x[15 ^ step]};
  else if constexpr (count == 8)
    return V{x[0 ^ step], x[1 ^ step], x[2 ^ step], x[3 ^ step], x[4 ^ step], x[5 ^ step], x[6 ^ step], x[7 ^ step]};
  else if constexpr (count == 4)
    return V{x[0 ^ step], x[1 ^ step], x[2 ^ step], x[3 ^ step]};
  else
    return V{x[0 ^ step], x[1 ^ step]};
}

template <class Real> HEADWISE_INLINE Real sum(Vector<Real> x) {
  constexpr int count = Lanes<Real>::count;
  if constexpr (count > 8) x += swapped<8>(x);
  if constexpr (count > 4) x += swapped<4>(x);
  if constexpr (count > 2) x += swapped<2>(x);
  return x[0] + x[1];
}

template <class Real> HEADWISE_INLINE Real highest(Vector<Real> x) {
  constexpr int count = Lanes<Real>::count;
  if constexpr (count > 8) x = larger(swapped<8>(x), x);
  if constexpr (count > 4) x = larger(swapped<4>(x), x);
  if constexpr (count > 2) x = larger(swapped<2>(x), x);
  return x[0] > x[1] ? x[0] : x[1];
}

// n vectors at a time, step by step: each step of one fills the time that the same step of another takes.
template <class Real, int n> struct Several {
  Vector<Real> x[n];
  Vector<Real>& operator[](int i) { return x[i]; }
};
#define HEADWISE_EACH _Pragma("GCC unroll 4") for (int i = 0; i < n; i++)

// 2^f for |f| <= 1/2 is 1 + f·q(f), with q from Chebyshev interpolation: relative error 5e-9 (float) and 1e-19 (double).
template <class Real> struct Fraction;
template <> struct Fraction<float> {
  static constexpr int terms = 7;
  static constexpr float of[] = {
      1.545316294512069e-4f, 1.3390863364671234e-3f, 9.618082557277852e-3f, 5.550357114219078e-2f, 2.4022650760568126e-1f, 6.931471880262288e-1f, 1.0f};
};
template <> struct Fraction<double> {
  static constexpr int terms = 13;
  static constexpr double of[] = {2.5729324177362305e-11,
                                  4.4558179083360645e-10,
                                  7.0548973041554995e-09,
                                  1.0178057087733941e-07,
                                  1.3215486808705563e-06,
                                  1.5252733841556773e-05,
                                  1.5403530393370734e-04,
                                  1.333355814640647e-03,
                                  9.61812910762848e-03,
                                  5.5504108664821625e-02,
                                  2.4022650695910072e-01,
                                  6.931471805599453e-01,
                                  1.0};
};

// 2^x for lowest <= x <= 1. NaN stays NaN: the power is multiplied, not added to the bits.
template <class Real, int n> HEADWISE_INLINE Several<Real, n> two_to(Several<Real, n> x) {
  typedef Word<Real> W;
  typedef Fraction<Real> F;
  Several<Real, n> shifted, fraction, y;
  HEADWISE_EACH shifted[i] = x[i] + W::magic;
  HEADWISE_EACH fraction[i] = x[i] - (shifted[i] - W::magic);
  HEADWISE_EACH y[i] = fraction[i] * F::of[0] + F::of[1];
#pragma GCC unroll 16
  for (int term = 2; term < F::terms; term++) HEADWISE_EACH y[i] = y[i] * fraction[i] + F::of[term];
  HEADWISE_EACH {
    Ints<Real> power = ((Ints<Real>)shifted[i] << W::mantissa) + all_int<Real>((int64_t)W::bias << W::mantissa);
    y[i] *= (Vector<Real>)power;
  }
  return y;
}

// x is held at the lowest power of which 2^x is a normal number. Gives back 2^x, and 0 at the lowest, where -inf went too. NaN stays.
template <class Real, int n> HEADWISE_INLINE Several<Real, n> share(Several<Real, n>& x) {
  const Vector<Real> lowest = opaque(all<Real>(Word<Real>::lowest));
  HEADWISE_EACH x[i] = larger(lowest, x[i]);
  Several<Real, n> y = two_to<Real, n>(x);
  HEADWISE_EACH y[i] = (Vector<Real>)((Ints<Real>)y[i] & ~(Ints<Real>)(x[i] <= lowest));
  return y;
}

// tanh: a rational or polynomial near 0, where 1 - 2 / (e^2x + 1) would cancel (Moshier, Cephes, tanhf.c and tanh.c).
HEADWISE_INLINE Vector<float> tanh_near(Vector<float> x) {
  Vector<float> z = x * x;
  Vector<float> y = z * -5.70498872745e-3f + 2.06390887954e-2f;
  y = y * z + -5.37397155531e-2f;
  y = y * z + 1.33314422036e-1f;
  y = y * z + -3.33332819422e-1f;
  return y * z * x + x;
}
HEADWISE_INLINE Vector<double> tanh_near(Vector<double> x) {
  Vector<double> z = x * x;
  Vector<double> above = (z * -9.64399179425052238628e-1 + -9.92877231001918586564e1) * z + -1.61468768441708447952e3;
  Vector<double> below = ((z + 1.12811678491632931402e2) * z + 2.23548839060100448583e3) * z + 4.84406305325125486048e3;
  return above / below * z * x + x;
}
template <class Real> HEADWISE_INLINE Vector<Real> tanh(Vector<Real> x) {
  Vector<Real> size = x < Real(0) ? -x : x;
  Vector<Real> twice = size * Real(2 * 1.4426950408889634);
  Vector<Real> power = two_to<Real, 1>({{larger(-twice, all<Real>(-60))}})[0];
  Vector<Real> far = (Real(1) - power) / (Real(1) + power);
  far = x < Real(0) ? -far : far;
  return size < Real(0.625) ? tanh_near(x) : (x != x ? x : far);
}

}  // namespace HEADWISE_ISA
}  // namespace headwise
