# Draws the text of a terminal as SVG. Input: the raw text. $title: what the picture shows, for people who do not see it.
def escaped: gsub("&"; "&amp;") | gsub("<"; "&lt;") | gsub(">"; "&gt;");
rtrimstr("\n") | split("\n") as $lines
| (($lines | map(length) | max) * 8.43 + 32 | ceil) as $width
| ($lines | length * 20 + 28) as $height
| "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 \($width) \($height)\" width=\"\($width)\" height=\"\($height)\" role=\"img\">",
  "<title>\($title | escaped)</title>",
  "<rect width=\"100%\" height=\"100%\" rx=\"8\" fill=\"#1b1f24\"/>",
  "<g font-family=\"ui-monospace,SFMono-Regular,Menlo,Consolas,monospace\" font-size=\"14\" fill=\"#d7dde3\">",
  ($lines | to_entries[]
    | "<text x=\"16\" y=\"\(.key * 20 + 30)\" xml:space=\"preserve\"\(if .value | startswith("$ ") then " fill=\"#7ee787\"" else "" end)>\(.value | escaped)</text>"),
  "</g>",
  "</svg>"
