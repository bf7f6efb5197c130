// The door from Python: tensors come in through DLPack and are not copied; shapes are checked once more, since a wrong one here
// would read foreign memory.
#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <optional>

#include <nanobind/stl/optional.h>

#include "choose.h"
#include "parallel.h"

namespace nb = nanobind;
using nb::literals::operator""_a;

namespace headwise {
namespace {

using Tensor = nb::ndarray<nb::ro, nb::device::cpu>;
using Result = nb::ndarray<nb::device::cpu>;

void demand(bool fits, const char* what) {
  if (!fits) throw nb::value_error(what);
}

template <class Any> bool is(const Any& tensor, nb::dlpack::dtype_code code, int bits) {
  nb::dlpack::dtype type = tensor.dtype();
  return type.code == static_cast<uint8_t>(code) && type.bits == bits && type.lanes == 1;
}

Element element_of(const Tensor& tensor) {
  using Code = nb::dlpack::dtype_code;
  if (is(tensor, Code::Float, 32)) return Element::f32;
  if (is(tensor, Code::Float, 64)) return Element::f64;
  if (is(tensor, Code::Float, 16)) return Element::f16;
  if (is(tensor, Code::Bfloat, 16)) return Element::bf16;
  throw nb::value_error("query, key and value must be float16, bfloat16, float32 or float64. Convert them.");
}

// A tensor of this shape; an axis of length 1 may stand for any length where `broadcasts`.
template <class Any> Array array_of(const Any& tensor, std::vector<int64_t> shape, bool broadcasts, const char* what) {
  demand(tensor.ndim() == shape.size(), what);
  Array array;
  array.data = static_cast<const char*>(tensor.data());
  for (size_t axis = 0; axis < shape.size(); axis++) {
    int64_t length = static_cast<int64_t>(tensor.shape(axis));
    demand(length == shape[axis] || (broadcasts && length == 1), what);
    array.stride[axis] = length == 1 && shape[axis] != 1 ? 0 : tensor.stride(axis);
  }
  return array;
}

template <class T> T* result_of(Result& tensor, int64_t length, size_t bytes, const char* what) {
  demand(static_cast<int64_t>(tensor.size()) == length && tensor.itemsize() == bytes, what);
  if (length == 0) return static_cast<T*>(tensor.data());
  int64_t step = 1;
  for (size_t axis = tensor.ndim(); axis-- > 0;) {
    demand(tensor.shape(axis) <= 1 || tensor.stride(axis) == step, what);
    step *= static_cast<int64_t>(tensor.shape(axis));
  }
  return static_cast<T*>(tensor.data());
}

bool python_interrupts() {
  nb::gil_scoped_acquire holding;
  return PyErr_CheckSignals() != 0;
}

void run(const std::string& isa, const Problem& problem, int threads) {
  const Table* table = table_named(isa);
  demand(table != nullptr, "isa must be one of those that run here. See instruction_sets().");
  bool done;
  {
    nb::gil_scoped_release released;
    done = run_items(*table, problem, threads, python_interrupts);
  }
  if (!done) throw nb::python_error();
}

using Maybe = std::optional<Tensor>;

// The call as arrays: everything but value and results. Keeps what it had to copy.
struct Reading {
  Problem p{};
  size_t real;
  std::vector<int64_t> offsets;

  Reading(const Tensor& query, const Tensor& key, const Tensor& first, const Tensor& stop, const Tensor& offset, const Maybe& mask, const Maybe& bias,
          int64_t plane_start, double scale, double softcap, int threads) {
    using Code = nb::dlpack::dtype_code;
    demand(query.ndim() == 4 && key.ndim() == 4, "query, key and value must have 4 axes.");
    p.threads = threads;
    p.B = query.shape(0), p.H = query.shape(1), p.T = query.shape(2), p.D = query.shape(3);
    p.G = key.shape(1), p.S = key.shape(2);
    p.element = element_of(query);
    real = p.element == Element::f64 ? 8 : 4;
    demand(element_of(key) == p.element, "query, key and value must be of one type.");
    demand(p.H == 0 || (p.G > 0 && p.H % p.G == 0), "heads of key must divide heads of query.");
    p.query = array_of(query, {p.B, p.H, p.T, p.D}, false, "query must be [B, H, T, D].");
    p.key = array_of(key, {p.B, p.G, p.S, p.D}, false, "key must be [B, G, S, D].");
    p.scale = scale, p.softcap = softcap;

    demand(is(first, Code::Int, 64) && is(stop, Code::Int, 64) && is(offset, Code::Int, 64), "first, stop and offset must be int64.");
    p.first = array_of(first, {p.B, p.H, p.T}, true, "first must broadcast to [B, H, T].");
    p.stop = array_of(stop, {p.B, p.H, p.T}, true, "stop must broadcast to [B, H, T].");
    Array steps = array_of(offset, {p.B}, false, "offset must be [B].");
    for (int64_t b = 0; b < p.B; b++) offsets.push_back(reinterpret_cast<const int64_t*>(steps.data)[b * steps.stride[0]]);
    p.offset = offsets.data();

    if (mask) demand(is(*mask, Code::Bool, 8), "mask must be bool.");
    if (bias) demand(is(*bias, Code::Float, static_cast<int>(real) * 8), "bias must be of the type that is computed in.");
    p.plane_start = plane_start, p.plane_stop = p.S;
    p.mask = plane(mask, "mask must broadcast to [B, H, T, keys].");
    p.bias = plane(bias, "bias must broadcast to [B, H, T, keys].");
  }

  // A plane of one column stands for all keys, one of several for the keys from plane_start on.
  Array plane(const Maybe& tensor, const char* what) {
    if (!tensor) return Array{};
    int64_t width = tensor->ndim() == 4 ? static_cast<int64_t>(tensor->shape(3)) : 0;
    if (width != 1) {
      demand(p.plane_start >= 0 && p.plane_start + width <= p.S, what);
      p.plane_stop = std::min(p.plane_stop, p.plane_start + width);
    }
    return array_of(*tensor, {p.B, p.H, p.T, width == 1 ? p.S : width}, true, what);
  }
};

void attend(Tensor query, Tensor key, Tensor value, Tensor first, Tensor stop, Tensor offset, Maybe mask, Maybe bias, int64_t plane_start, double scale,
            double softcap, Maybe sink, Maybe segments, int64_t labels, Result output, Result lse, std::vector<std::optional<Result>> number,
            std::optional<Result> peak, std::optional<Result> spans, std::optional<Result> received, int threads, const std::string& isa) {
  using Code = nb::dlpack::dtype_code;
  Reading reading(query, key, first, stop, offset, mask, bias, plane_start, scale, softcap, threads);
  Problem& p = reading.p;
  demand(value.ndim() == 4, "query, key and value must have 4 axes.");
  demand(element_of(value) == p.element, "query, key and value must be of one type.");
  p.E = value.shape(3);
  p.value = array_of(value, {p.B, p.G, p.S, p.E}, false, "value must be [B, G, S, E].");
  if (sink) {
    demand(is(*sink, Code::Float, 64), "sink must be float64.");
    p.sink = array_of(*sink, {p.H}, false, "sink must be [H].");
  }
  if (segments) {
    demand(is(*segments, Code::Int, 64), "segments must be int64.");
    Array label = array_of(*segments, {p.B, p.S}, false, "segments must be [B, S].");
    demand(p.B * p.S == 0 || ((p.S == 1 || label.stride[1] == 1) && (p.B == 1 || label.stride[0] == p.S)), "segments must be contiguous.");
    p.segments = reinterpret_cast<const int64_t*>(label.data);
    p.labels = labels;
  }

  int64_t rows = p.B * p.H * p.T;
  p.output = result_of<char>(output, rows * p.E, query.itemsize(), "output must be contiguous [B, H, T, E].");
  p.lse = result_of<void>(lse, rows, reading.real, "lse must be contiguous [B, H, T].");
  demand(number.size() == numbers, "number must have a place for each statistic.");
  for (int i = 0; i < numbers; i++)
    if (number[i]) p.number[i] = result_of<void>(*number[i], rows, reading.real, "each statistic must be contiguous [B, H, T].");
  if (peak) p.peak = result_of<int64_t>(*peak, rows, 8, "peak must be contiguous int64 [B, H, T].");
  if (spans) {
    demand(segments.has_value(), "spans must come with segments.");
    p.spans = result_of<void>(*spans, rows * labels, reading.real, "spans must be contiguous [B, H, T, labels].");
  }
  if (received) p.received = result_of<void>(*received, p.B * p.H * p.S, reading.real, "received must be contiguous [B, H, S].");
  p.job = Job::forward;
  run(isa, p, threads);
  if (!received) return;
  p.job = Job::received;
  run(isa, p, threads);
}

void pool(Tensor query, Tensor key, Result lse, Tensor first, Tensor stop, Tensor offset, Maybe mask, Maybe bias, int64_t plane_start, double scale,
          double softcap, int64_t pool_start, int64_t pool_stop, int64_t cell, bool mean, Result pooled, int threads, const std::string& isa) {
  Reading reading(query, key, first, stop, offset, mask, bias, plane_start, scale, softcap, threads);
  Problem& p = reading.p;
  p.job = Job::pool;
  demand(cell > 0 && 0 <= pool_start && pool_start <= pool_stop && pool_stop <= p.S, "cells must lie among the keys.");
  p.pool_start = pool_start, p.pool_stop = pool_stop, p.cell = cell, p.mean = mean;
  int64_t lines = (p.T + cell - 1) / cell, columns = (pool_stop - pool_start + cell - 1) / cell;
  p.lse = result_of<void>(lse, p.B * p.H * p.T, reading.real, "lse must be contiguous [B, H, T].");
  p.pooled = result_of<void>(pooled, p.B * p.H * lines * columns, reading.real, "pooled must be contiguous [B, H, lines, columns].");
  run(isa, p, threads);
}

std::vector<std::string> instruction_sets() {
  std::vector<std::string> names;
  for (const Table* table : tables()) names.push_back(table->name);
  return names;
}

}  // namespace
}  // namespace headwise

NB_MODULE(_native, module) {
  using namespace headwise;
  module.def("instruction_sets", &instruction_sets, "Those that run here, the fastest first.");
  module.def("attend", &attend, "query"_a, "key"_a, "value"_a, "first"_a, "stop"_a, "offset"_a, "mask"_a.none(), "bias"_a.none(), "plane_start"_a, "scale"_a,
             "softcap"_a, "sink"_a.none(), "segments"_a.none(), "labels"_a, "output"_a, "lse"_a, "number"_a, "peak"_a.none(), "spans"_a.none(),
             "received"_a.none(), "threads"_a, "isa"_a);
  module.def("pool", &pool, "query"_a, "key"_a, "lse"_a, "first"_a, "stop"_a, "offset"_a, "mask"_a.none(), "bias"_a.none(), "plane_start"_a, "scale"_a,
             "softcap"_a, "pool_start"_a, "pool_stop"_a, "cell"_a, "mean"_a, "pooled"_a, "threads"_a, "isa"_a);
}
