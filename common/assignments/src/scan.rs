//! A look at a kernel's text before any compiler sees it.

/// Bytes that a file may have.
pub const MAX_SOURCE: usize = 64 << 10;

/// Headers that a kernel may include.
pub const HEADERS: [&str; 4] = ["cuda_fp16.h", "cuda_bf16.h", "cuda_pipeline.h", "mma.h"];

/// Why a file is not compiled, in a sentence; `None` if nothing speaks against it.
pub fn refusal(text: &str, kernel: &str) -> Option<String> {
    if text.len() > MAX_SOURCE {
        return Some(format!("The file is {} bytes long; at most {MAX_SOURCE} are allowed.", text.len()));
    }
    if text.contains("// nvrtc:") {
        return Some("`// nvrtc:` lines are not allowed: the exercise sets the compiler's options.".to_owned());
    }
    if text.contains("%:") || text.contains("??=") {
        return Some("`%:` and `??=`, which are other spellings of `#`, are not allowed.".to_owned());
    }
    let code = without_comments(text);
    if code.contains("__has_include") || code.contains("__has_embed") {
        return Some("`__has_include` is not allowed.".to_owned());
    }
    let directives = code.lines().filter_map(|line| line.trim_start().strip_prefix('#'));
    for directive in directives {
        let directive = directive.trim();
        let end = directive.find(|c: char| !c.is_ascii_alphanumeric() && c != '_').unwrap_or(directive.len());
        let (word, named) = directive.split_at(end);
        if !["include", "include_next", "import", "embed"].contains(&word) {
            continue;
        }
        let named = named.trim();
        let inner = named.strip_prefix('<').and_then(|name| name.strip_suffix('>'));
        if !inner.is_some_and(|name| HEADERS.contains(&name)) {
            return Some(format!("`#include {named}` is not allowed; the headers that are: {}.", HEADERS.join(", ")));
        }
    }
    match code.matches("__global__").count() {
        0 => Some(format!("The file defines no kernel; it should define `{kernel}`.")),
        1 => None,
        _ => Some(format!("The file defines more kernels than `{kernel}`; make helpers `__device__` functions.")),
    }
}

/// The text with lines that end in `\` joined, and each comment replaced with a space.
fn without_comments(text: &str) -> String {
    let text = text.replace("\r\n", "\n").replace('\r', "\n").replace("\\\n", "");
    let mut code = String::with_capacity(text.len());
    let mut rest = text.chars().peekable();
    let mut quote = None;
    while let Some(c) = rest.next() {
        match (quote, c, rest.peek()) {
            (Some(_), '\\', Some(_)) => {
                code.push(c);
                code.extend(rest.next());
                continue;
            }
            // No literal of the course goes over lines; one that does must not hide what follows.
            (Some(end), c, _) if c == end || c == '\n' => quote = None,
            (None, '"' | '\'', _) => quote = Some(c),
            (None, '/', Some('/')) => {
                rest.by_ref().find(|&c| c == '\n');
                code.push('\n');
                continue;
            }
            (None, '/', Some('*')) => {
                rest.next();
                let mut before = ' ';
                for c in rest.by_ref() {
                    if before == '*' && c == '/' {
                        break;
                    }
                    before = c;
                }
                code.push(' ');
                continue;
            }
            _ => {}
        }
        code.push(c);
    }
    code
}

#[cfg(test)]
mod tests {
    use super::refusal;

    #[test]
    fn files_are_refused_for_what_they_include_and_define() {
        let kernel = "extern \"C\" __global__ void f() {}\n";
        assert_eq!(refusal(kernel, "f"), None);
        assert_eq!(refusal(&format!("// #include \"x\"\n#include <mma.h>\n{kernel}"), "f"), None);
        for include in [
            "#include \"/etc/passwd\"",
            "#inc\\\nlude \"/etc/passwd\"",
            "#/* */include </etc/passwd>",
            "# include NAME",
            "%:include \"/etc/passwd\"",
            "const char *s = \"//\";\n#include \"x\"",
            "// nvrtc: --pre-include=/etc/passwd",
            "#if __has_include(\"/etc/passwd\")\n#endif",
        ] {
            assert!(refusal(&format!("{include}\n{kernel}"), "f").is_some(), "{include}");
        }
        assert!(refusal("", "f").is_some());
        assert!(refusal(&kernel.repeat(2), "f").is_some());
        assert!(refusal(&format!("{kernel}{}", " ".repeat(1 << 16)), "f").is_some());
    }
}
