# Reads one OpenAPI v3 document of Kubernetes, and prints a line `<file name> TAB <JSON schema>` for every kind in it.
# kubeconform needs a separate JSON schema per kind; the references stay local to the document.

# A misspelt field must fail, as it does with `kubectl apply --validate=strict`.
def strict:
  walk(if type == "object" and (.properties | type) == "object" and (has("additionalProperties") | not)
       then .additionalProperties = false else . end);

(.components.schemas | strict) as $schemas
| .components.schemas | to_entries[]
| select(.value["x-kubernetes-group-version-kind"] | length == 1)
| .value["x-kubernetes-group-version-kind"][0] as $gvk
| ([$gvk.kind, ($gvk.group | split(".")[0]), $gvk.version] | map(select(. != null and . != ""))
   | join("-") | ascii_downcase + ".json") as $file
| {
    "$schema": "http://json-schema.org/draft-07/schema#",
    allOf: [{"$ref": ("#/components/schemas/" + .key)}],
    components: {schemas: $schemas}
  }
| $file + "\t" + tojson
