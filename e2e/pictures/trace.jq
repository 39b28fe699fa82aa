# Draws the spans of one trace as SVG, each as a bar below its parent. Input: the spans as e2e/src/bin/otlp_sink.rs returns
# them, with times in seconds. $title: what the picture shows, for people who do not see it.
def escaped: gsub("&"; "&amp;") | gsub("<"; "&lt;") | gsub(">"; "&gt;");
def colors: {"app": "#4c8dd6", "worker": "#d98a3d"};
. as $spans
| (map(.start) | min) as $start
| (map(.start + .duration) | max - $start) as $whole
# The children of a span in the order of their starts, with their depth.
| def below($id; $depth): $spans | map(select(.parent_span_id == $id)) | sort_by(.start)[]
    | ({span: ., depth: $depth}, below(.span_id; $depth + 1));
  (map(.span_id) as $ids | map(select(.parent_span_id | IN($ids[]) | not) | .parent_span_id) | unique) as $roots
| [$roots[] as $root | below($root; 0)] as $rows
| 300 as $left | 620 as $scale
| ($rows | length * 24 + 64) as $height
| "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 1040 \($height)\" width=\"1040\" height=\"\($height)\" role=\"img\">",
  "<title>\($title | escaped)</title>",
  "<rect width=\"100%\" height=\"100%\" rx=\"8\" fill=\"#ffffff\" stroke=\"#d0d7de\"/>",
  "<g font-family=\"system-ui,sans-serif\" font-size=\"13\" fill=\"#1f2328\">",
  (["app", "worker"] | to_entries[]
    | "<rect x=\"\(16 + .key * 170)\" y=\"14\" width=\"12\" height=\"12\" fill=\"\(colors[.value])\"/><text x=\"\(34 + .key * 170)\" y=\"25\">\(.value)</text>"),
  ($rows | to_entries[]
    | .value.span as $span | (.key * 24 + 44) as $y
    | ($left + ($span.start - $start) / $whole * $scale) as $x
    | ([$span.duration / $whole * $scale, 2] | max) as $w
    | "<text x=\"\(16 + .value.depth * 14)\" y=\"\($y + 14)\">\($span.name | escaped)</text>",
      "<rect x=\"\($x * 10 | round / 10)\" y=\"\($y)\" width=\"\($w * 10 | round / 10)\" height=\"18\" rx=\"2\" fill=\"\(colors[$span.service] // "#6e7781")\"/>",
      "<text x=\"\($x + $w + 6 | round)\" y=\"\($y + 14)\" fill=\"#59636e\">\($span.duration * 10000 | round / 10) ms</text>"),
  "</g>",
  "</svg>"
