# Prints docs/api.md. $document[0] is the OpenAPI document of the app.

def root: $document[0];
def name: .["$ref"] | split("/") | last;
def cell: gsub("[|]"; "\\|");
# What a reference leads to. A description beside the reference counts instead of that behind it.
def resolved:
  . as $value
  | if has("$ref") then
      (root | getpath($value["$ref"] | ltrimstr("#/") | split("/"))) + ($value | del(.["$ref"]))
    else . end;

def grouped:
  tostring | if length > 6 then .[:-6] + "," + .[-6:] else . end | if length > 3 then .[:-3] + "," + .[-3:] else . end;
# The bounds of a number, or of a size in a unit, apart from those of the machine's numbers.
def bounds($least; $most; $unit):
  if $most == null or $most > 1e15 then empty
  elif $least == $most then "\($most)\($unit)"
  elif $least == null then "at most \($most | grouped)\($unit)"
  else "\($least | grouped) to \($most | grouped)\($unit)" end;
# The type of a value with its limits, apart from null: a request may have it in the place of every optional field.
def rule:
  resolved as $schema
  | if has("$ref") and $schema.type == "object" then
      name | if endswith("Request") then "`\(.)`" else "[`\(.)`](#\(ascii_downcase))" end
    elif $schema | has("anyOf") and (has("type") | not) then [.anyOf[] | rule] | join(" or ")
    else
      [ ($schema.type | if type == "array" then .[0] else . end
          | if . == "array" then "array of \($schema.items | rule)"
            elif . == "string" then {"date-time": "time", uuid: "UUID", url: "URL"}[$schema.format // ""] // .
            else {boolean: "true or false", integer: "whole number"}[.] // . end),
        ($schema
         | bounds(.minimum; .maximum; ""), bounds(.minLength; .maxLength; " characters"),
           bounds(.minItems; .maxItems; " items"), bounds(.minProperties; .maxProperties; " fields"),
           (.pattern // empty | select(length < 30) | "`\(.)`"),
           (.enum // empty | map(select(. != null) | "`\(.)`") | join(", ")))
      ] | join(", ")
    end;

def row($mark): "| `\(.name)`\($mark) | \(.schema | rule | cell) | \(.description // (.schema | resolved.description) | cell) |";
def fields:
  .required as $required
  | .properties // {} | to_entries[] | {name: .key, schema: .value}
  | row(if .name | IN($required[]?) then ", required" else "" end);

# The problem types that the description of an answer names.
def problems:
  [root.components.schemas.Problem.properties.type.examples[] | ltrimstr("/problems/")] as $types
  | resolved.description | scan("`([a-z-]+)`")[] | select(IN($types[]));
def errors: [.responses | to_entries[] | {status: .key, type: (.value | problems)}];
# The errors that all of these operations have.
def common: length as $count | [.[] | errors[]] | group_by(.) | map(select(length == $count)[0]);
def listed: group_by(.status) | map("\(.[0].status) " + (map("`\(.type)`") | join(", "))) | join("; ");
def operations: [root.paths[][]];
def everywhere: operations | common;
def with_key: (operations | map(select(.security)) | common) - everywhere;
def with_body: (operations | map(select(.requestBody)) | common) - everywhere - with_key;

def answered:
  "- \(.key): \(.value.description)"
  + ([.value.content // {} | .[].schema | resolved.properties | values | keys_unsorted[] | "`\(.)`"]
     | if . == [] then "" else ": \(join(", "))" end)
  + ([.value.headers // {} | keys_unsorted[] | select(startswith("RateLimit") | not) | "`\(.)`"]
     | if . == [] then "" else "; with \(join(", "))" end);
def operation:
  "", "\(.summary)." + (.description // "" | sub("^(?=.)"; " ")),
  (.requestBody | values
   | "", "Body: \(.content[].schema | if has("$ref") then "`\(name)`" else "a JSON object" end). \(.description)"),
  ([(.parameters // [])[] | resolved | row(", \(.in)")]
   + [.requestBody.content // {} | .[].schema | resolved | fields]
   | select(. != []) | "", "| name | type | meaning |", "| --- | --- | --- |", .[]),
  "", (.responses | to_entries[] | select([.value | problems] == []) | answered),
  (errors - everywhere - (if .security then with_key else [] end) - (if .requestBody then with_body else [] end)
   | select(. != []) | "- Problems: \(listed)");

"<!-- Written by `make api` from workloads/app/openapi.json. -->",
"# HTTP API", "", root.info.description, "",
"| requests | problems |", "| --- | --- |", "| all | \(everywhere | listed) |",
"| that can need a key | \(with_key | listed) |", "| with a body | \(with_body | listed) |",
(root.tags[] | .name as $tag
 | "", "## \($tag)", "", .description,
   (root.paths | to_entries[] | .key as $path | .value | to_entries[] | select(.value.tags == [$tag])
    | "", "### \(.key | ascii_upcase) \($path)", (.value | operation))),
"", "## Problem types", "", "| type, below `/problems/` | meaning |", "| --- | --- |",
([root.components.responses[], root.paths[][].responses[] | .description // "" | scan("(`[a-z-]+`): (.*?)(?=[.] `[a-z-]+`: |$)")] | group_by(.[0])[][0]
 | "| \(.[0]) | \(.[1] | cell) |"),
"", "## Header fields of answers", "", "| name | meaning |", "| --- | --- |",
([root.components.responses[], root.paths[][].responses[] | .headers // {} | to_entries[]] | unique_by(.key)[]
 | "| `\(.key)` | \(.value | resolved.description | cell) |")
