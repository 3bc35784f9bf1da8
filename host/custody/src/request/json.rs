//! JSON bodies: a skeleton with leaves added at declared places, written by our own writer into one exact buffer, so
//! that a spliced secret never passes through a string that grows (attacks 45, 67).

use crate::secret::{SecretBytes, Sink, write_exactly};
use holdfast_manifest::{Pointer, Step, WriteAs};
use serde_json::Value;
use std::collections::BTreeMap;

/// A body before it is written.
pub(crate) enum Node {
    /// A constant of the skeleton.
    Constant(Value),
    Object(Vec<(String, Node)>),
    Array(Vec<Node>),
    /// An argument written as a string, or bare (numbers and booleans, checked before).
    Text(String),
    Bare(String),
    /// A slot, by index into the list of spliced secrets; must be UTF-8.
    Secret(usize),
    /// Made for a place and filled at once; the skeleton has none.
    Vacant,
}

impl Node {
    pub fn from_skeleton(value: &Value) -> Node {
        match value {
            Value::Object(map) => {
                // In order of their names, whatever the JSON library does: the same request has the same bytes.
                let mut members: Vec<_> =
                    map.iter().map(|(k, v)| (k.clone(), Node::from_skeleton(v))).collect();
                members.sort_by(|(a, _), (b, _)| a.cmp(b));
                Node::Object(members)
            }
            Value::Array(list) => Node::Array(list.iter().map(Node::from_skeleton).collect()),
            other => Node::Constant(other.clone()),
        }
    }

    pub fn leaf(text: &str, write_as: WriteAs) -> Node {
        match write_as {
            WriteAs::String => Node::Text(text.to_owned()),
            WriteAs::Int | WriteAs::Bool => Node::Bare(text.to_owned()),
        }
    }
}

/// A skeleton being filled. Lists that share an array (`/nets/*/id`, `/nets/*/ip`) fill the same new elements.
pub(crate) struct Tree {
    root: Node,
    /// By the pointer to an array: index of its first appended element.
    appended: BTreeMap<Pointer, usize>,
}

impl Tree {
    pub fn new(skeleton: &Value) -> Tree {
        Tree { root: Node::from_skeleton(skeleton), appended: BTreeMap::new() }
    }

    pub fn root(&self) -> &Node {
        &self.root
    }

    /// Sets one leaf; parents are made, an existing leaf is never replaced.
    pub fn set(&mut self, at: &Pointer, leaf: Node) -> Result<(), String> {
        place(&mut self.root, &at.0, leaf)
    }

    /// Sets a list at the one `*` of the pointer.
    pub fn set_list(&mut self, at: &Pointer, leaves: Vec<Node>) -> Result<(), String> {
        let star = at.0.iter().position(|step| *step == Step::Every).ok_or("the place takes one value")?;
        let array = Pointer(at.0[..star].to_vec());
        let start = match self.appended.get(&array) {
            Some(start) => *start,
            None => {
                let start = array_at(&mut self.root, &array.0)?.len();
                self.appended.insert(array.clone(), start);
                start
            }
        };
        let shared = array_at(&mut self.root, &array.0)?.len() - start;
        if shared != 0 && shared != leaves.len() {
            return Err("two lists of one array differ in length".into());
        }
        for (index, leaf) in leaves.into_iter().enumerate() {
            let mut steps = array.0.clone();
            steps.push(Step::Key((start + index).to_string()));
            steps.extend_from_slice(&at.0[star + 1..]);
            place(&mut self.root, &steps, leaf)?;
        }
        Ok(())
    }
}

fn array_at<'n>(node: &'n mut Node, steps: &[Step]) -> Result<&'n mut Vec<Node>, String> {
    let target = steps.iter().try_fold(node, |node, step| child(node, step))?;
    match target {
        Node::Array(list) => Ok(list),
        Node::Vacant => {
            *target = Node::Array(Vec::new());
            array_at(target, &[])
        }
        _ => Err("`*` stands where the skeleton has no array".into()),
    }
}

fn place(node: &mut Node, steps: &[Step], leaf: Node) -> Result<(), String> {
    let Some((last, parents)) = steps.split_last() else { return Err("the root can't be a leaf".into()) };
    let mut parent = node;
    for step in parents {
        parent = child(parent, step)?;
    }
    let slot = child(parent, last)?;
    match slot {
        Node::Vacant => {
            *slot = leaf;
            Ok(())
        }
        _ => Err("the leaf exists already (attack 43)".into()),
    }
}

/// The member or element of a step. Missing ones are made vacant, which the caller fills; what stands there is kept.
fn child<'n>(node: &'n mut Node, step: &Step) -> Result<&'n mut Node, String> {
    let Step::Key(key) = step else { return Err("a request place has no such step".into()) };
    if let Node::Vacant = node {
        *node = Node::Object(Vec::new());
    }
    match node {
        Node::Object(members) => {
            let index = match members.iter().position(|(name, _)| name == key) {
                Some(index) => index,
                None => {
                    members.push((key.clone(), Node::Vacant));
                    members.len() - 1
                }
            };
            Ok(&mut members[index].1)
        }
        Node::Array(list) => {
            let index: usize = key.parse().map_err(|_| "an array needs a number as step".to_string())?;
            if index == list.len() {
                list.push(Node::Vacant);
            }
            list.get_mut(index).ok_or_else(|| "an array has no such element".to_string())
        }
        _ => Err("a leaf has no members (attack 44)".into()),
    }
}

/// Writes the body into one exact buffer. `secrets` must be UTF-8 where a node names them.
pub(crate) fn write(root: &Node, secrets: &[&SecretBytes]) -> Option<SecretBytes> {
    for secret in secrets {
        secret.text()?;
    }
    write_exactly(|out| node(out, root, secrets))
}

fn node(out: &mut dyn Sink, value: &Node, secrets: &[&SecretBytes]) {
    match value {
        // Constants of the manifest: public.
        Node::Constant(value) => out.put(value.to_string().as_bytes()),
        Node::Object(members) => {
            out.put(b"{");
            for (index, (key, member)) in members.iter().enumerate() {
                if index > 0 {
                    out.put(b",");
                }
                string(out, key.as_bytes());
                out.put(b":");
                node(out, member, secrets);
            }
            out.put(b"}");
        }
        Node::Array(list) => {
            out.put(b"[");
            for (index, element) in list.iter().enumerate() {
                if index > 0 {
                    out.put(b",");
                }
                node(out, element, secrets);
            }
            out.put(b"]");
        }
        Node::Vacant => out.put(b"null"),
        Node::Text(text) => string(out, text.as_bytes()),
        Node::Bare(text) => out.put(text.as_bytes()),
        Node::Secret(index) => {
            if let Some(secret) = secrets.get(*index) {
                string(out, secret.expose());
            }
        }
    }
}

/// A JSON string (RFC 8259 section 7) from UTF-8 bytes.
pub(crate) fn string(out: &mut dyn Sink, utf8: &[u8]) {
    const DIGITS: &[u8; 16] = b"0123456789abcdef";
    out.put(b"\"");
    let mut clean = 0;
    for (at, byte) in utf8.iter().enumerate() {
        let escape: [u8; 6] = match byte {
            b'"' | b'\\' => [b'\\', *byte, 0, 0, 0, 0],
            b'\n' => *b"\\n\0\0\0\0",
            b'\r' => *b"\\r\0\0\0\0",
            b'\t' => *b"\\t\0\0\0\0",
            0..=0x1f | 0x7f => {
                [b'\\', b'u', b'0', b'0', DIGITS[usize::from(byte >> 4)], DIGITS[usize::from(byte & 15)]]
            }
            _ => continue,
        };
        out.put(&utf8[clean..at]);
        out.put(if escape[1] == b'u' { &escape } else { &escape[..2] });
        clean = at + 1;
    }
    out.put(&utf8[clean..]);
    out.put(b"\"");
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use serde_json::json;

    fn key(text: &str) -> Step {
        Step::Key(text.into())
    }

    fn parsed(tree: &Tree, secrets: &[&SecretBytes]) -> Value {
        serde_json::from_slice(write(tree.root(), secrets).unwrap().expose()).unwrap()
    }

    #[test]
    fn leaves_are_added_and_never_replaced_attack_43() {
        let mut tree = Tree::new(&json!({"server": {"count": 1}, "disks": [{"boot": true}]}));
        tree.set(&Pointer(vec![key("server"), key("image"), key("id")]), Node::Text("i\"1".into())).unwrap();
        tree.set(&Pointer(vec![key("disks"), key("0"), key("src")]), Node::Bare("7".into())).unwrap();
        assert!(tree.set(&Pointer(vec![key("server"), key("count")]), Node::Text("2".into())).is_err());
        assert!(
            tree.set(&Pointer(vec![key("server"), key("count"), key("x")]), Node::Text("2".into())).is_err()
        );
        assert!(tree.set(&Pointer(vec![key("disks"), key("3")]), Node::Text("2".into())).is_err());
        assert_eq!(
            parsed(&tree, &[]),
            json!({"server": {"count": 1, "image": {"id": "i\"1"}}, "disks": [{"boot": true, "src": 7}]})
        );
    }

    #[test]
    fn lists_append_after_the_fixed_elements_and_share_their_elements() {
        let mut tree = Tree::new(&json!({"nets": [{"fixed": 1}]}));
        let at = |leaf: &str| Pointer(vec![key("nets"), Step::Every, key(leaf)]);
        let texts = |a: &str, b: &str| vec![Node::Text(a.into()), Node::Text(b.into())];
        tree.set_list(&at("uuid"), texts("a", "b")).unwrap();
        tree.set_list(&at("ip"), texts("1", "2")).unwrap();
        assert!(tree.set_list(&at("x"), vec![Node::Text("1".into())]).is_err());
        let new = Pointer(vec![key("tags"), Step::Every]);
        tree.set_list(&new, texts("x", "y")).unwrap();
        assert_eq!(
            parsed(&tree, &[]),
            json!({"nets": [{"fixed": 1}, {"uuid": "a", "ip": "1"}, {"uuid": "b", "ip": "2"}], "tags": ["x", "y"]})
        );
    }

    #[test]
    fn a_secret_that_is_not_utf8_never_becomes_a_json_string() {
        let mut tree = Tree::new(&json!({}));
        tree.set(&Pointer(vec![key("u")]), Node::Secret(0)).unwrap();
        assert!(write(tree.root(), &[&SecretBytes::from(vec![0xff, 0xfe])]).is_none());
    }

    proptest! {
        #[test]
        fn any_secret_round_trips_through_the_splice_attack_45(secret in "(\\PC|[\\x00-\\x1f\"\\\\$&%{}]){0,80}") {
            let mut tree = Tree::new(&json!({"before": "a", "o": {"k": [1, null]}}));
            tree.set(&Pointer(vec![key("o"), key("user_data")]), Node::Secret(0)).unwrap();
            let spliced = SecretBytes::from(secret.clone().into_bytes());
            let value = parsed(&tree, &[&spliced]);
            prop_assert_eq!(value, json!({"before": "a", "o": {"k": [1, null], "user_data": secret}}));
        }
    }
}
