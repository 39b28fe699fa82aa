# Reads CustomResourceDefinitions, and prints a line `<file name> TAB <JSON schema>` for kubeconform for every version of each.

# A misspelt field must fail, as it does at the API server with strict validation.
def strict:
  walk(if type == "object" and (.properties | type) == "object"
          and (has("additionalProperties") or .["x-kubernetes-preserve-unknown-fields"] == true
               or .["x-kubernetes-embedded-resource"] == true | not)
       then .additionalProperties = false else . end);

select(.kind == "CustomResourceDefinition") | .spec as $spec
| $spec.versions[]
| ([$spec.names.kind, ($spec.group | split(".")[0]), .name] | join("-") | ascii_downcase + ".json") as $file
| .schema.openAPIV3Schema
| .properties += {apiVersion: {type: "string"}, kind: {type: "string"}, metadata: {type: "object"}}
| $file + "\t" + (strict | tojson)
