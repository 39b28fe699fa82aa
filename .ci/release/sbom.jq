# From `cargo metadata` to a bill of materials in CycloneDX 1.6: the programs of a release, and every crate that is part of
# one or runs while it is compiled. $programs are the packages of the programs, $checksums maps "name version" to the digest in
# Cargo.lock, $linked maps what is linked beside crates to its version, $time is in seconds, $serial is a UUID.

def purl: "pkg:cargo/\(.name)@\(.version | gsub("\\+"; "%2B"))";

# Old crates separate alternatives with a slash.
def licenses: if .license then [{expression: (.license | gsub(" */ *"; " OR "))}] else [] end;

def digests: $checksums["\(.name) \(.version)"] as $digest
  | if $digest then [{alg: "SHA-256", content: $digest}] else [] end;

def component: {
    type: (if IN(.name; $programs[]) then "application" else "library" end),
    "bom-ref": purl, name, version, licenses: licenses, hashes: digests, purl: purl
  }
  + if .repository then {externalReferences: [{type: "vcs", url: .repository}]} else {} end
  | with_entries(select(.value != []));

# Dependencies of tests alone are in no program.
def needed: [.deps[] | select(any(.dep_kinds[]; .kind != "dev")) | .pkg];

# closure($edges): the packages that are reached from those in the input.
def closure($edges): {seen: ., new: .}
  | until(.new == []; .seen as $seen | ([.new[] | $edges[.][]] | unique - $seen) as $new | {seen: ($seen + $new), new: $new})
  | .seen;

(.packages | map({(.id): .}) | add) as $packages
| (.resolve.nodes | map({(.id): needed}) | add) as $edges
| [.packages[] | select(IN(.name; $programs[])) | .id]
| closure($edges)
| map($packages[.]) | sort_by(.name, .version) as $all
| ($linked | to_entries | map("pkg:generic/\(.key)@\(.value)" as $ref
    | {type: "library", "bom-ref": $ref, name: .key, version: .value, purl: $ref})) as $libraries
| {
    bomFormat: "CycloneDX",
    specVersion: "1.6",
    serialNumber: "urn:uuid:\($serial)",
    version: 1,
    metadata: {
      timestamp: ($time | todate),
      component: {type: "application", "bom-ref": "shortener-stack", name: "shortener-stack", version: $version}
    },
    components: ($libraries + ($all | map(component))),
    dependencies: (
      [{ref: "shortener-stack", dependsOn: (($all | map(select(IN(.name; $programs[])) | purl)) + ($libraries | map(.purl)))}]
      + ($all | map({ref: purl, dependsOn: ([$edges[.id][] | $packages[.] | purl] | unique)}))
    )
  }
