//! Looking at things through the real binary: `show` with its pictures, `diff`, `explain`.

mod common;

use common::{Scratch, corpus, scalar_graph};
use serde_json::Value;

/// XML of elements and text: every element is closed in turn, and no stray bracket or ampersand is left. Gives the texts.
fn check_xml(text: &str) -> Vec<String> {
    let mut open: Vec<&str> = Vec::new();
    let mut texts = Vec::new();
    let mut rest = text;
    while let Some(at) = rest.find('<') {
        let (before, tag) = rest.split_at(at);
        assert!(!before.contains('>') || open.last() == Some(&"style"), "{before}");
        for entity in before.split('&').skip(1) {
            assert!(["amp;", "lt;", "gt;", "quot;", "#39;"].iter().any(|e| entity.starts_with(e)), "{entity}");
        }
        if open.last() == Some(&"text") {
            texts.push(before.to_owned());
        }
        let end = tag.find('>').expect("a closed tag");
        let inside = &tag[1..end];
        match (inside.strip_prefix('/'), inside.ends_with('/')) {
            (Some(name), _) => assert_eq!(open.pop(), Some(name)),
            (None, true) => {}
            (None, false) => open.push(inside.split(' ').next().expect("a name")),
        }
        assert_eq!(inside.matches('"').count() % 2, 0, "{inside}");
        rest = &tag[end + 1..];
    }
    assert!(open.is_empty(), "{open:?}");
    texts
}

#[test]
fn every_graph_of_the_corpus_becomes_a_picture() {
    let scratch = Scratch::new();
    let mut count = 0;
    for entry in std::fs::read_dir(corpus()).expect("the corpus") {
        let path = entry.expect("an entry").path();
        let Some(file) = path.to_str().filter(|p| p.ends_with(".json")) else { continue };
        let (code, shown) = scratch.json(&["show", file]);
        assert_eq!(code, 0);
        let svg = scratch.run(&["show", file, "--svg"]);
        assert_eq!(svg.code, 0, "{svg:?}");
        let texts = check_xml(&svg.out);
        let has = |text: &str| texts.iter().any(|t| t.contains(text));
        for node in shown["nodes"].as_array().expect("nodes") {
            assert!(has(node["operation"].as_str().expect("a name")), "{file}: {node}");
        }
        for tensor in shown["tensors"].as_array().expect("tensors") {
            let name = tensor["name"].as_str().filter(|n| !n.is_empty());
            let name = name.map_or_else(|| format!("uid {}", tensor["uid"]), str::to_owned);
            assert!(has(&name) || has("no operation names"), "{file}: {tensor}");
        }
        assert!(has(shown["graph_key"].as_str().expect("a key")) && has(shown["api_floor"].as_str().expect("a floor")), "{file}");
        assert_eq!(svg.out.matches("http").count(), 1, "{file}: nothing is fetched, only the namespace is named");
        assert_eq!(scratch.run(&["show", file, "--svg"]).out, svg.out, "{file}: drawn alike twice");

        let dot = scratch.run(&["show", file, "--dot"]);
        assert!(dot.code == 0 && dot.out.starts_with("digraph ") && dot.out.ends_with("}\n"), "{dot:?}");
        let uses: usize = shown["nodes"].as_array().expect("nodes").iter().map(|n| n["operands"].as_array().expect("a list").len()).sum();
        assert!(dot.out.matches(" -> ").count() <= uses && dot.out.contains(" -> "), "{file}");
        count += 1;
    }
    assert_eq!(count, 25);
}

#[test]
fn pictures_go_to_files_and_never_over_their_graph() {
    let scratch = Scratch::new();
    scratch.write("g.json", scalar_graph(r#", "is_runtime_pass_by_value": true"#));
    let shown = scratch.run(&["show", "g.json", "--svg"]);
    let ran = scratch.run(&["show", "g.json", "--svg", "-o", "g.svg"]);
    assert!(ran.code == 0 && ran.out.is_empty() && ran.err.contains("g.svg"), "{ran:?}");
    assert_eq!(std::fs::read_to_string(scratch.path("g.svg")).expect("written"), shown.out);
    assert!(shown.out.contains("float, runtime<") && shown.out.contains("runtime scalar"), "the state of the scalar is told: {shown:?}");
    let before = std::fs::read(scratch.path("g.json")).expect("there");
    for (args, why) in [
        (&["show", "g.json", "--svg", "-o", "g.json"][..], "over the graph"),
        (&["show", "g.json", "-o", "x.svg"], "needs --svg or --dot"),
        (&["show", "g.json", "--svg", "--json"], "exclude each other"),
        (&["show", "g.json", "--svg", "--dot"], "cannot be used with"),
        (&["show", "g.json", "--svg", "-o", "no/such/folder/x.svg"], "no/such/folder/x.svg"),
    ] {
        let ran = scratch.run(args);
        assert!(ran.code == 2 && ran.err.contains(why), "{args:?} {ran:?}");
    }
    assert_eq!(std::fs::read(scratch.path("g.json")).expect("there"), before);
    assert!(!scratch.path("x.svg").exists());
}

#[test]
fn names_that_mean_something_in_a_picture_stay_names() {
    let scratch = Scratch::new();
    let evil = r#"</text><script>\"'&\\\n\u001b]0;x"#;
    let text = scalar_graph("").replace("\"name\": \"x\"", &format!("\"name\": \"{evil}\"")).replace("\"scale\"", &format!("\"{evil}\""));
    scratch.write("g.json", text);
    let svg = scratch.run(&["show", "g.json", "--svg"]);
    let texts = check_xml(&svg.out);
    assert!(svg.code == 0 && !svg.out.contains("<script") && texts.iter().any(|t| t.contains("&lt;script&gt;")), "{svg:?}");
    let dot = scratch.run(&["show", "g.json", "--dot"]);
    assert!(dot.code == 0 && dot.out.contains(r#"<script>\"'&\\"#), "{dot:?}");
    assert!(![&svg.out, &dot.out].iter().any(|t| t.contains('\u{1b}')));
}

#[test]
fn show_is_also_called_inspect_and_draws_plans() {
    let scratch = Scratch::new();
    scratch.write("g.json", scalar_graph(r#", "value_type": "Float32Value", "value": 2.0"#));
    assert_eq!(scratch.run(&["show", "g.json"]).out, scratch.run(&["inspect", "g.json"]).out);
    assert_eq!(scratch.run(&["compile", "g.json", "--store", "s"]).code, 0);
    let (_, listed) = scratch.json(&["ls", "--store", "s"]);
    let key = listed["plans"][0]["plan_key"].as_str().expect("a key").to_owned();
    let svg = scratch.run(&["show", &key, "--store", "s", "--svg"]);
    assert!(svg.code == 0 && svg.out.contains("HIPPLAN_CPU") && svg.out.contains("pointwise mul"), "{svg:?}");
    check_xml(&svg.out);
}

// ---- diff ----

/// Place and field of each difference, and whether it changes the key.
fn listed(value: &Value) -> Vec<(String, String, bool)> {
    let text = |d: &Value, key: &str| d[key].as_str().expect("text").to_owned();
    let all = value["differences"].as_array().expect("a list");
    all.iter().map(|d| (text(d, "where"), text(d, "field"), d["changes_key"].as_bool().expect("a flag"))).collect()
}

#[test]
fn graphs_that_differ_in_names_have_one_key_and_others_do_not() {
    let scratch = Scratch::new();
    let base = scalar_graph(r#", "value_type": "Float32Value", "value": 2.0"#);
    scratch.write("a.json", &base);
    // Other uids and names.
    let renamed = base.replace("\"uid\": 5", "\"uid\": 50").replace("\"in_0_tensor_uid\": 5", "\"in_0_tensor_uid\": 50");
    scratch.write("b.json", renamed.replace("\"scale\"", "\"other\""));
    let ran = scratch.run(&["diff", "a.json", "b.json"]);
    assert!(ran.code == 0 && ran.out.trim_end().ends_with("same key"), "{ran:?}");
    assert!(ran.out.contains("2 differences, none of which changes the key"), "{ran:?}");
    let (code, value) = scratch.json(&["diff", "a.json", "b.json"]);
    assert_eq!((code, &value["same_key"]), (0, &true.into()));
    assert_eq!(value["a"]["key"], value["b"]["key"]);
    let found = listed(&value);
    assert!(found.contains(&("graph".into(), "name".into(), false)), "{found:?}");
    assert!(found.iter().any(|(place, field, counts)| place.contains("uid 5") && field == "uid" && !counts), "{found:?}");

    let ran = scratch.run(&["diff", "a.json", "a.json"]);
    assert!(ran.code == 0 && ran.out.contains("no difference") && ran.out.trim_end().ends_with("same key"), "{ran:?}");

    scratch.write("c.json", base.replace("\"value\": 2.0", "\"value\": 3.0").replace("\"mul\"", "\"add\""));
    let ran = scratch.run(&["diff", "a.json", "c.json"]);
    assert!(ran.code == 1 && ran.out.trim_end().ends_with("different keys"), "{ran:?}");
    assert!(ran.out.contains("float 2") && ran.out.contains("float 3"), "both values are shown: {ran:?}");
    let (code, value) = scratch.json(&["diff", "a.json", "c.json"]);
    assert_eq!((code, &value["same_key"]), (1, &false.into()));
    let found = listed(&value);
    let counting: Vec<&str> = found.iter().filter(|d| d.2).map(|d| d.1.as_str()).collect();
    assert_eq!(counting, ["value", "operation"], "{found:?}");
    // The node's attribute is named as in hipDNN, with both spellings.
    let mode = value["differences"].as_array().expect("a list").iter().find(|d| d["field"] == "operation").expect("there");
    assert_eq!((&mode["a"], &mode["b"]), (&"mul".into(), &"add".into()));
    for args in [&["diff", "a.json", "absent.json"][..], &["diff", "-", "-"], &["diff", "a.json"]] {
        assert_eq!(scratch.run(args).code, 2, "{args:?}");
    }
}

#[test]
fn plans_differ_in_their_identity_and_in_their_graphs() {
    let scratch = Scratch::new();
    let mut keys = Vec::new();
    for (name, value) in [("two", "2.0"), ("three", "3.0")] {
        let file = format!("{name}.json");
        scratch.write(&file, scalar_graph(&format!(r#", "value_type": "Float32Value", "value": {value}"#)));
        let (code, report) = scratch.json(&["compile", &file, "--store", "s"]);
        assert_eq!(code, 0);
        keys.push(report["rows"][0]["graph_key"].as_str().expect("a key").to_owned());
    }
    let (code, value) = scratch.json(&["diff", &keys[0], &keys[1], "--store", "s"]);
    assert_eq!((code, &value["compared"]), (1, &"plan".into()));
    let found = listed(&value);
    assert!(found.contains(&("plan".into(), "graph key".into(), true)), "{found:?}");
    assert!(found.iter().any(|d| d.1 == "value" && d.2) && found.iter().any(|d| d.1 == "payload baked scalars" && !d.2), "{found:?}");
    assert!(!found.iter().any(|d| d.1 == "target" || d.1 == "engine"), "{found:?}");
    assert_eq!(scratch.run(&["diff", &keys[0], &keys[0], "--store", "s"]).code, 0);
    // A graph and the graph in a plan.
    let (code, value) = scratch.json(&["diff", "two.json", &keys[0], "--store", "s"]);
    assert_eq!((code, &value["compared"]), (0, &"graph".into()), "{value:#}");
    assert_eq!(scratch.run(&["diff", "two.json", &keys[1], "--store", "s"]).code, 1);
}

// ---- explain ----

/// A bare buffer whose root table has a field in slot 11: a new vtable behind the end, which points that slot at some field.
fn with_unknown_field(buffer: &[u8]) -> Vec<u8> {
    let mut bytes = buffer.to_vec();
    let u16_at = |bytes: &[u8], at: usize| u16::from_le_bytes([bytes[at], bytes[at + 1]]);
    let root = u32::from_le_bytes(bytes[..4].try_into().expect("four")) as usize;
    let back = i32::from_le_bytes(bytes[root..root + 4].try_into().expect("four"));
    let vtable = (root as i64 - i64::from(back)) as usize;
    let len = usize::from(u16_at(&bytes, vtable));
    let mut new = bytes[vtable..vtable + len].to_vec();
    let some_field = (4..len).step_by(2).map(|at| u16_at(&new, at)).find(|&at| at != 0).expect("a field");
    new.resize(4 + 2 * 11, 0);
    new.extend_from_slice(&some_field.to_le_bytes());
    let new_len = new.len() as u16;
    new[..2].copy_from_slice(&new_len.to_le_bytes());
    bytes.resize(bytes.len().next_multiple_of(8), 0);
    let at = bytes.len();
    bytes[root..root + 4].copy_from_slice(&(root as i32 - at as i32).to_le_bytes());
    bytes.extend(new);
    bytes
}

#[test]
fn a_graph_without_a_key_says_which_table_and_slot() {
    let scratch = Scratch::new();
    scratch.write("g.json", scalar_graph(""));
    assert_eq!(scratch.run(&["import", "g.json", "-o", "g.hpgraph"]).code, 0);
    let artifact = std::fs::read(scratch.path("g.hpgraph")).expect("written");
    scratch.write("new.bin", with_unknown_field(&artifact[64..]));
    let ran = scratch.run(&["explain", "new.bin"]);
    assert!(ran.code == 1 && ran.out.contains("the graph table: slot 11") && ran.out.contains("hint:"), "{ran:?}");
    let (code, value) = scratch.json(&["explain", "new.bin"]);
    assert_eq!((code, &value["valid"], &value["key"]), (1, &true.into(), &Value::Null));
    assert_eq!(value["unknown_fields"][0]["slots"], serde_json::json!([11]));
    let ran = scratch.run(&["diff", "new.bin", "g.json"]);
    assert!(ran.code == 1 && ran.out.trim_end().ends_with("no key to compare"), "{ran:?}");
}

#[test]
fn floors_name_their_tensors_and_stamps_are_judged() {
    let scratch = Scratch::new();
    let text = scalar_graph(r#", "is_runtime_pass_by_value": true, "value_type": "Float32Value", "value": 0.25"#);
    let text = text.replace("\"name\": \"y\"", "\"name\": \"y\", \"alignment\": 64");
    scratch.write("g.json", text);
    let (code, value) = scratch.json(&["explain", "g.json"]);
    assert_eq!((code, &value["valid"], &value["api_floor"]), (0, &true.into(), &"1.3.0".into()));
    let causes: Vec<(&str, &str, &str)> = value["floor_causes"]
        .as_array()
        .expect("a list")
        .iter()
        .map(|c| (c["floor"].as_str().expect("text"), c["feature"].as_str().expect("text"), c["tensor"]["name"].as_str().expect("text")))
        .collect();
    assert_eq!(causes, [("1.2.0", "runtime pass-by-value", "alpha"), ("1.3.0", "alignment other than 16", "y")]);
    assert_eq!(value["by_value"][0]["state"], "runtime scalar with default");
    assert_eq!(value["by_value"][0]["value"], 0.25);
    assert_eq!(
        (&value["stamp"]["form"], &value["stamp"]["agrees"], &value["stamp"]["written_on_import"]),
        (&"struct".into(), &true.into(), &true.into())
    );
    let ran = scratch.run(&["explain", "g.json"]);
    assert!(
        ran.code == 0 && ran.out.contains("alpha") && ran.out.contains("not part of the key") && ran.out.contains("names compute nothing"),
        "{ran:?}"
    );

    // The stamp of a bare buffer is its own; taken down to the baseline it is told to be too low.
    assert_eq!(scratch.run(&["import", "g.json", "-o", "g.hpgraph"]).code, 0);
    let mut buffer = std::fs::read(scratch.path("g.hpgraph")).expect("written")[64..].to_vec();
    let stamp: Vec<u8> = [1_u32, 3, 0].iter().flat_map(|v| v.to_le_bytes()).collect();
    let at = buffer.windows(12).position(|w| w == stamp).expect("the stamp");
    buffer[at + 4] = 0;
    scratch.write("g.bin", &buffer);
    let (code, value) = scratch.json(&["explain", "g.bin"]);
    assert_eq!((code, &value["stamp"]["agrees"], &value["stamp"]["written_on_import"]), (0, &false.into(), &false.into()), "{value:#}");
    assert!(value["stamp"]["agreement"].as_str().is_some_and(|t| t.starts_with("lower than the floor")), "{value:#}");
}

#[test]
fn what_is_refused_is_explained_with_a_hint() {
    let scratch = Scratch::new();
    let good = scalar_graph("");
    for (name, text, error, hint) in [
        ("dup.json", good.replace("\"uid\": 6", "\"uid\": 5"), "uid", "each is given once"),
        ("text.json", "just text".to_owned(), "JSON", "line and column"),
        ("empty.json", String::new(), "empty", "nothing was read"),
    ] {
        scratch.write(name, text);
        let ran = scratch.run(&["explain", name]);
        assert!(ran.code == 1 && ran.out.contains("refused:") && ran.out.contains(error) && ran.out.contains(hint), "{name}: {ran:?}");
        let (code, value) = scratch.json(&["explain", name]);
        assert_eq!((code, &value["valid"]), (1, &false.into()));
        assert!(value["hint"].as_str().is_some_and(|h| h.contains(hint)), "{value}");
    }
    assert_eq!(scratch.run(&["explain", "absent.json"]).code, 2);
}

#[test]
fn a_plan_is_explained_by_its_graph() {
    let scratch = Scratch::new();
    scratch.write("g.json", scalar_graph(r#", "is_runtime_pass_by_value": true"#));
    let (_, report) = scratch.json(&["compile", "g.json", "--store", "s"]);
    let key = report["rows"][0]["graph_key"].as_str().expect("a key").to_owned();
    let (code, value) = scratch.json(&["explain", &key, "--store", "s"]);
    assert_eq!((code, &value["key"], &value["form"]), (0, &key.into(), &"graph of a plan".into()));
    assert_eq!(value["api_floor"], "1.2.0");
}
