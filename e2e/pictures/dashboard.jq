# Draws the panels of a dashboard as SVG, at their places in its JSON. Input: the panels, each with its `series`: a name and
# its points [seconds, value]. $from, $to: the ends of the time axis in seconds. $title: what the picture shows, for people
# who do not see it.
def escaped: gsub("&"; "&amp;") | gsub("<"; "&lt;") | gsub(">"; "&gt;");
def short: . * 100 | round / 100;
def with_unit($unit):
  if $unit == "percentunit" then "\(. * 100 | short) %"
  elif $unit == "s" then (if . < 1 then "\(. * 1000 | short) ms" else "\(short) s" end)
  elif $unit == "bool_yes_no" then (if . >= 1 then "Yes" else "No" end)
  elif $unit == "reqps" then "\(short) req/s"
  elif $unit == "ops" then "\(short) ops/s"
  else "\(short)" end;
def colors: ["#4c8dd6", "#d98a3d", "#3fa96b", "#b565c9", "#c9534f", "#6e7781"];
# A unit of the grid in pixels.
56 as $column | 24 as $row
| (map(.gridPos.y + .gridPos.h) | max * $row + 16) as $height
| (24 * $column + 16) as $width
| "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 \($width) \($height)\" width=\"\($width)\" height=\"\($height)\" role=\"img\">",
  "<title>\($title | escaped)</title>",
  "<rect width=\"100%\" height=\"100%\" rx=\"8\" fill=\"#f6f8fa\" stroke=\"#d0d7de\"/>",
  "<g font-family=\"system-ui,sans-serif\" font-size=\"13\" fill=\"#1f2328\">",
  (.[] | (.gridPos.x * $column + 8) as $x | (.gridPos.y * $row + 8) as $y
    | if .type == "row" then "<text x=\"\($x + 4)\" y=\"\($y + 18)\" font-weight=\"bold\">\(.title | escaped)</text>"
      else
        (.gridPos.w * $column - 8) as $w | (.gridPos.h * $row - 8) as $h
        | ($h - 64) as $plot
        | (.fieldConfig.defaults.unit // "short") as $unit
        | (.series | map(select(.points != []))) as $series
        | ([$series[].points[][1]] | max // 0) as $most
        | (if $most > 0 then $most else 1 end) as $full
        | "<rect x=\"\($x)\" y=\"\($y)\" width=\"\($w)\" height=\"\($h)\" rx=\"4\" fill=\"#ffffff\" stroke=\"#d0d7de\"/>",
          "<text x=\"\($x + 10)\" y=\"\($y + 20)\">\(.title | escaped)</text>",
          "<text x=\"\($x + $w - 10)\" y=\"\($y + 20)\" text-anchor=\"end\" fill=\"#59636e\" font-size=\"11\">\($most | with_unit($unit))</text>",
          "<path d=\"M\($x + 10) \($y + 30 + $plot)h\($w - 20)M\($x + 10) \($y + 30)h\($w - 20)\" stroke=\"#d0d7de\"/>",
          (if $series == [] then "<text x=\"\($x + $w / 2)\" y=\"\($y + $h / 2)\" text-anchor=\"middle\" fill=\"#59636e\">No data</text>" else empty end),
          ($series | to_entries[] | colors[.key % 6] as $color
            | (.value.points | map("\($x + 10 + (.[0] - $from) / ($to - $from) * ($w - 20) | short),\($y + 30 + $plot * (1 - .[1] / $full) | short)") | join(" ")) as $points
            | "<polyline points=\"\($points)\" fill=\"none\" stroke=\"\($color)\" stroke-width=\"1.5\"/>"),
          "<text x=\"\($x + 10)\" y=\"\($y + $h - 14)\" font-size=\"11\">" + ([$series | to_entries[]
            | "<tspan fill=\"\(colors[.key % 6])\">● </tspan>\(.value.name | escaped)  "] | .[:6] | join("")) + "</text>"
      end),
  "</g>",
  "</svg>"
