// SPDX-License-Identifier: MIT
#include <pipesched/io/picture_style.hpp>

#include "support/catch.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <string>
#include <string_view>

#include <pipesched/core/placement.hpp>

using namespace pipesched;
using detail::color_of;
using detail::op_hue;

namespace {

using linear_rgb = std::array<double, 3>;
using matrix = std::array<linear_rgb, 3>;

double to_linear(int value) {
  double const share = value / 255.0;
  return share <= 0.04045 ? share / 12.92 : std::pow((share + 0.055) / 1.055, 2.4);
}
linear_rgb to_linear(detail::rgb color) {
  return {to_linear(color.red), to_linear(color.green), to_linear(color.blue)};
}
double luminance(linear_rgb c) { return 0.2126 * c[0] + 0.7152 * c[1] + 0.0722 * c[2]; }

/// What a colour is to the eye, CIE 1976: lightness from 0 to 100, then green to red, then blue to yellow.
std::array<double, 3> to_lab(linear_rgb c) {
  auto const f = [](double t) { return t > 0.008856 ? std::cbrt(t) : 7.787 * t + 16.0 / 116; };
  double const x = f((0.4124 * c[0] + 0.3576 * c[1] + 0.1805 * c[2]) / 0.9505);
  double const y = f(luminance(c));
  double const z = f((0.0193 * c[0] + 0.1192 * c[1] + 0.9505 * c[2]) / 1.089);
  return {116 * y - 16, 500 * (x - y), 200 * (y - z)};
}

/// How eyes without one kind of cone see a linear colour: Machado, Oliveira and Fernandes 2009, full severity.
constexpr std::array<matrix, 4> eyes{
    {{{{1, 0, 0}, {0, 1, 0}, {0, 0, 1}}},
     {{{0.152286, 1.052583, -0.204868}, {0.114503, 0.786281, 0.099216}, {-0.003882, -0.048116, 1.051998}}},
     {{{0.367322, 0.860646, -0.227968}, {0.280085, 0.672501, 0.047413}, {-0.011820, 0.042940, 0.968881}}},
     {{{1.255528, -0.076749, -0.178779}, {-0.078411, 0.930809, 0.147602}, {0.004733, 0.691367, 0.303900}}}}};

linear_rgb seen_by(matrix const& eye, linear_rgb c) {
  linear_rgb seen{};
  for (std::size_t i = 0; i < 3; ++i)
    seen[i] = std::clamp(eye[i][0] * c[0] + eye[i][1] * c[1] + eye[i][2] * c[2], 0.0, 1.0);
  return seen;
}

double difference(std::array<double, 3> a, std::array<double, 3> b) {
  return std::sqrt(std::pow(a[0] - b[0], 2) + std::pow(a[1] - b[1], 2) + std::pow(a[2] - b[2], 2));
}

}  // namespace

TEST_CASE("Colours of kinds stay apart for every eye", "[io][picture_style]") {
  for (auto const& eye : eyes)
    for (int a = 0; a < detail::op_hues; ++a)
      for (int b = 0; b < a; ++b) {
        INFO(detail::legend_of(op_hue(a)) << " against " << detail::legend_of(op_hue(b)));
        CHECK(difference(to_lab(seen_by(eye, to_linear(color_of(op_hue(a))))),
                         to_lab(seen_by(eye, to_linear(color_of(op_hue(b)))))) > 15);
      }
}

TEST_CASE("The four kinds of a schedule differ in lightness, for print", "[io][picture_style]") {
  std::array<double, 4> lightness{};
  for (int hue = 0; hue < 4; ++hue) lightness[std::size_t(hue)] = to_lab(to_linear(color_of(op_hue(hue))))[0];
  std::sort(lightness.begin(), lightness.end());
  for (std::size_t i = 1; i < lightness.size(); ++i) CHECK(lightness[i] - lightness[i - 1] > 9);
}

TEST_CASE("Black text is readable on every colour and shade", "[io][picture_style]") {
  detail::op_looks const looks(placement::loop(2, 4));
  CHECK(looks.shades() == 4);
  for (int hue = 0; hue < detail::op_hues; ++hue)
    for (int shade = 0; shade < looks.shades(); ++shade) {
      auto const text = looks.color({op_hue(hue), shade, false});
      auto const part = [&](std::size_t at) { return std::stoi(text.substr(at, 2), nullptr, 16); };
      INFO(text);
      CHECK((luminance(to_linear({part(1), part(3), part(5)})) + 0.05) / 0.05 > 4.5);  // as WCAG 2 asks for
    }
}
