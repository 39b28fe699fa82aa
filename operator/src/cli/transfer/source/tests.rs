use serde_json::{Value, json};

use super::*;

/// Returns what a file has, with each link as a value.
fn items(format: Format, file: &str) -> Vec<Value> {
    let mut items = Vec::new();
    read_all(format, file.as_bytes(), &mut items).unwrap();
    items
}

fn read_all(format: Format, file: &[u8], items: &mut Vec<Value>) -> Result<(), SourceError> {
    read(file, format, &mut |item| {
        items.push(match item {
            Item::Link { line, code, json } => {
                let link: Value = serde_json::from_str(&json).unwrap();
                assert_eq!(link["code"], code);
                json!([line, link])
            }
            Item::Refused { line, code, reason } => json!([line, code, reason]),
        });
        Ok(())
    })
}

fn failure(format: Format, file: &[u8]) -> String {
    let failed = read_all(format, file, &mut Vec::new());
    failed.unwrap_err().to_string()
}

#[test]
fn bitly_has_titles_tags_and_further_codes_of_one_link() {
    assert_eq!(
        items(Format::Bitly, include_str!("samples/bitly.csv")),
        [
            json!([2, {"code": "3AbC9", "url": "https://example.com/spring?x=1&y=2", "title": "Spring sale",
                "created_at": "2026-01-31T12:00:00Z", "tags": ["2026", "sale"]}]),
            json!([3, {"code": "my-page", "url": "https://example.com/page", "title": "Quoted, \"title\"",
                "created_at": "2026-02-01T08:30:00Z"}]),
        ]
    );
    let spring = |code: &str| {
        json!([1, {"code": code, "url": "https://example.com/spring", "title": "Spring sale",
            "created_at": "2026-01-31T12:00:00Z", "tags": ["sale"]}])
    };
    assert_eq!(
        items(Format::Bitly, include_str!("samples/bitly.json")),
        [
            spring("3AbC9"),
            spring("spring"),
            json!([2, {"code": "4XyZ", "url": "https://example.com/", "created_at": "2026-02-01T08:30:00Z"}]),
        ]
    );
}

#[test]
fn yourls_has_keywords_and_times_without_a_zone() {
    let ozh = |line: u64| {
        json!([line, {"code": "ozh", "url": "https://example.com/ozh", "title": "A page",
            "created_at": "2026-01-31T12:00:00Z"}])
    };
    assert_eq!(
        items(Format::Yourls, include_str!("samples/yourls.csv")),
        [
            ozh(2),
            // The app refuses this code.
            json!([3, {"code": "a.b", "url": "https://example.com/dot", "created_at": "2026-02-01T08:30:00Z"}]),
        ]
    );
    assert_eq!(
        items(Format::Yourls, include_str!("samples/yourls.json")),
        [
            ozh(1),
            json!([2, {"code": "two", "url": "https://example.com/2", "created_at": "2026-02-01T08:30:00Z"}]),
        ]
    );
    assert_eq!(
        items(Format::Yourls, include_str!("samples/yourls-plugin.csv")),
        [json!([2, {"code": "ozh", "url": "https://example.com/ozh"}])]
    );
}

#[test]
fn shlink_has_tags_and_limits_that_links_here_do_not_have() {
    assert_eq!(
        items(Format::Shlink, include_str!("samples/shlink.csv")),
        [
            json!([2, {"code": "12Kb3", "url": "https://example.com/a", "title": "A page",
                "created_at": "2026-01-31T12:00:00Z", "tags": ["games", "web dev"]}]),
            json!([3, {"code": "v1.0/setup", "url": "https://example.com/b", "created_at": "2026-02-01T08:30:00Z"}]),
        ]
    );
    assert_eq!(
        items(Format::Shlink, include_str!("samples/shlink.json")),
        [
            json!([1, {"code": "12Kb3", "url": "https://example.com/a", "title": "A page",
                "created_at": "2026-01-31T12:00:00Z", "expires_at": "2030-01-01T00:00:00Z", "tags": ["games"]}]),
            json!([
                2,
                "once",
                "the link has a maximum number of visits, and links here have none"
            ]),
        ]
    );
}

#[test]
fn kutt_has_descriptions_bans_and_passwords() {
    assert_eq!(
        items(Format::Kutt, include_str!("samples/kutt.json")),
        [
            json!([1, {"code": "k1", "url": "https://example.com/k1", "note": "For the fair",
                "created_at": "2026-01-31T12:00:00Z", "expires_at": "2030-01-01T00:00:00Z"}]),
            json!([2, {"code": "k2", "url": "https://example.com/k2", "created_at": "2026-01-31T12:00:00Z",
                "disabled": {"at": "2026-01-31T12:00:00Z", "as": "gone", "reason": "banned before the import"}}]),
            json!([3, "k3", "the link has a password, and links here have none"]),
        ]
    );
    assert_eq!(
        items(Format::Kutt, include_str!("samples/kutt.csv")),
        [
            json!([2, {"code": "k1", "url": "https://example.com/k1", "note": "For the fair",
            "created_at": "2026-01-31T12:00:00Z"}])
        ]
    );
}

#[test]
fn lines_of_an_export_pass_as_they_are_and_others_are_refused() {
    let long = "x".repeat(MAX_LINK);
    let file = format!(
        "{{\"code\":\"a\",\"more\":1}}\r\n\n[1]\n{{\"code\":\n{{\"code\":\"{long}\"}}\n{{\"code\":\"b\"}}"
    );
    let refused = |line: u64, reason: &str| json!([line, null, reason]);
    assert_eq!(
        items(Format::Ndjson, &file),
        [
            json!([1, {"code": "a", "more": 1}]),
            refused(3, "the line is no JSON object"),
            refused(4, "the line is no JSON object"),
            refused(5, "the line is longer than 128 KiB"),
            json!([6, {"code": "b"}]),
        ]
    );
    assert_eq!(items(Format::Ndjson, ""), Vec::<Value>::new());
}

#[test]
fn a_row_without_a_part_that_every_link_has_is_refused_and_a_column_is_named() {
    let rows = "keyword,url,timestamp\n,https://example.com/,\na,,\nb,https://example.com/,yesterday\nc,https://example.com/,0000-00-00 00:00:00\n";
    assert_eq!(
        items(Format::Yourls, rows),
        [
            json!([2, null, "the link has no keyword or shorturl or source"]),
            json!([3, "a", "the link has no url or target"]),
            json!([
                4,
                "b",
                "the time \"yesterday\" is none like 2030-01-31T12:00:00Z"
            ]),
            json!([5, {"code": "c", "url": "https://example.com/"}]),
        ]
    );
    let missing = failure(Format::Kutt, b"address,url\na,https://example.com/\n");
    assert_eq!(missing, "the file has no column target");
    let missing = failure(Format::Shlink, b"longUrl\nhttps://example.com/\n");
    assert_eq!(missing, "the file has no column shortcode");
    let rows = "source,target,hits\na,https://example.com/?x=1,2,17\nb,https://example.com/,17,\n";
    assert_eq!(
        items(Format::Yourls, rows),
        [
            json!([
                2,
                "a",
                "the line has more columns than the header: quote its texts"
            ]),
            json!([3, {"code": "b", "url": "https://example.com/"}]),
        ]
    );
    assert!(failure(Format::Kutt, b"{\"data\": [{]}").contains("not JSON"));
    assert!(failure(Format::Kutt, b"{\"data\": 7}").contains("an array of links"));
}

#[test]
fn an_answer_without_links_is_refused_unless_it_has_an_empty_list() {
    let answers = r#"{"data": [], "total": 0} {"error": "Unauthorized"} {"address": "a", "target": "https://example.com/"}"#;
    assert_eq!(
        items(Format::Kutt, answers),
        [
            json!([1, null, "the link has no address"]),
            json!([2, {"code": "a", "url": "https://example.com/"}]),
        ]
    );
}

#[test]
fn a_byte_order_mark_and_another_delimiter_make_no_difference() {
    let file = "\u{feff}shortCode\tlongUrl\nabc\thttps://example.com/?a=1,2;3\n";
    let expected = [json!([2, {"code": "abc", "url": "https://example.com/?a=1,2;3"}])];
    assert_eq!(items(Format::Shlink, file), expected);
    let json = "\u{feff} [{\"shortCode\": \"abc\", \"longUrl\": \"https://example.com/?a=1,2;3\"}]";
    assert_eq!(items(Format::Shlink, json)[0][1], expected[0][1]);
}

#[test]
fn a_long_title_is_cut_and_its_line_ends_are_spaces() {
    let file = format!(
        "[{{\"shortCode\": \"a\", \"longUrl\": \"https://example.com/\", \"title\": \"a\\nb{}\"}}]",
        "ü".repeat(300)
    );
    let title = items(Format::Shlink, &file)[0][1]["title"].clone();
    let title = title.as_str().unwrap();
    assert!(title.starts_with("a b") && title.ends_with('…'), "{title}");
    assert_eq!(title.chars().count(), 200);
}

#[test]
fn the_error_of_the_sink_ends_the_reading() {
    for (format, file) in [
        (Format::Ndjson, "{}\n{}\n"),
        (Format::Kutt, include_str!("samples/kutt.json")),
        (Format::Yourls, include_str!("samples/yourls.csv")),
    ] {
        let mut items = 0;
        let read = read(file.as_bytes(), format, &mut |_| {
            items += 1;
            Err(SourceError::Stopped)
        });
        assert!(matches!(read, Err(SourceError::Stopped)), "{format:?}");
        assert_eq!(items, 1);
    }
}
