//! A look at a kernel's text before any compiler sees it.
//!
//! The rules know no comments and no literals, so nothing is gained by pretending that one begins or ends: a `#` anywhere must begin
//! a line with a directive that is allowed, and `#include` must name a header that is allowed.

/// Maximum size of a file in bytes.
pub const MAX_SOURCE: usize = 64 << 10;

/// Headers that a kernel may include.
pub const HEADERS: [&str; 4] = ["cuda_fp16.h", "cuda_bf16.h", "cuda_pipeline.h", "mma.h"];

/// Directives that read no file, `#include` and `#pragma` apart.
const DIRECTIVES: [&str; 10] =
    ["define", "undef", "if", "ifdef", "ifndef", "elif", "else", "endif", "error", "warning"];

/// Text that may appear nowhere, not even in a comment, and why.
const REFUSED: [(&str, &str); 9] = [
    ("// nvrtc:", "sets the compiler's options, which are the exercise's"),
    ("%:", "is another spelling of `#`"),
    ("??=", "is another spelling of `#`"),
    ("??/", "is another spelling of `\\`"),
    ("\\u", "is another spelling of a character"),
    ("\\U", "is another spelling of a character"),
    ("__has_", "asks which files there are"),
    ("_Pragma", "is another spelling of `#pragma`"),
    ("__pragma", "is another spelling of `#pragma`"),
];

/// Reason why a file is not compiled, in a sentence; `None` if nothing speaks against it.
pub fn refusal(text: &str, kernel: &str) -> Option<String> {
    if text.len() > MAX_SOURCE {
        return Some(format!("The file is {} bytes long; at most {MAX_SOURCE} are allowed.", text.len()));
    }
    let text = text.replace("\r\n", "\n");
    if let Some(c) = text.chars().find(|&c| c.is_control() && c != '\n' && c != '\t') {
        return Some(format!("The file contains the control character {:#04x}, which is not allowed.", u32::from(c)));
    }
    if text.split('\n').any(|line| line.ends_with(char::is_whitespace) && line.trim_end().ends_with('\\')) {
        return Some("A line ends in `\\` and blanks, which compilers read differently; remove the blanks.".to_owned());
    }
    let text = text.replace("\\\n", "");
    if let Some((word, why)) = REFUSED.iter().find(|(word, _)| text.contains(word)) {
        return Some(format!("`{word}` is not allowed, not even in a comment: it {why}."));
    }
    let mut only_includes = true;
    for line in text.split('\n') {
        let mut pieces = line.split('#');
        let before = pieces.next().unwrap_or_default();
        let Some(directive) = pieces.next() else { continue };
        if before.contains(|c| c != ' ' && c != '\t') || pieces.next().is_some() {
            return Some("`#` may only begin a line, in comments and literals too.".to_owned());
        }
        let directive = directive.trim_matches([' ', '\t']);
        let end = directive.find(|c: char| !c.is_ascii_alphanumeric() && c != '_').unwrap_or(directive.len());
        let (word, rest) = directive.split_at(end);
        let rest = rest.trim_start_matches([' ', '\t']);
        match word {
            "include" if !only_includes => {
                // A macro could change what a header does, and what it includes.
                return Some("`#include` must come before all other directives.".to_owned());
            }
            "include" => {
                let header = rest.split("//").next().unwrap_or_default().trim_end_matches([' ', '\t']);
                let name = header.strip_prefix('<').and_then(|name| name.strip_suffix('>'));
                if !name.is_some_and(|name| HEADERS.contains(&name)) {
                    let headers = HEADERS.map(|name| format!("`<{name}>`")).join(", ");
                    return Some(format!("`#include {rest}` is not allowed; the headers that are: {headers}."));
                }
            }
            "pragma" if ["unroll", "nounroll"].iter().any(|pragma| rest.starts_with(pragma)) => only_includes = false,
            _ if DIRECTIVES.contains(&word) => only_includes = false,
            _ => return Some(format!("The directive `#{directive}` is not allowed, not even in a comment.")),
        }
    }
    let defined = text.contains("__global__");
    (!defined).then(|| format!("The file defines no kernel; it should define `{kernel}`."))
}

/// The names of a kernel's parameters, for labels; fewer if the text is unusual.
pub(crate) fn parameters(source: &str, kernel: &str) -> Vec<String> {
    let list = source.split_once(&format!("{kernel}(")).and_then(|(_, rest)| rest.split_once(')'));
    let is_word = |c: char| c.is_alphanumeric() || c == '_';
    let name = |parameter: &str| {
        let parameter = parameter.trim_end();
        parameter[parameter.trim_end_matches(is_word).len()..].to_owned()
    };
    list.map(|(list, _)| list.split(',').map(name).collect()).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::{parameters, refusal};

    const KERNEL: &str = "extern \"C\" __global__ void f() {}\n";

    #[test]
    fn what_exercises_need_is_allowed() {
        for before in [
            "",
            "#include <mma.h>\r\n#include <cuda_fp16.h> // half\n",
            "// include \"x\" is no directive\n/*\n#include <mma.h>\n*/\n",
            "/* a comment: 1'000 \" R\"( ' × — ∈ */\n",
            "# define TILE \\\n    32\n#if TILE == 32\n#endif\n",
            "#pragma unroll 4\n",
        ] {
            assert_eq!(refusal(&format!("{before}{KERNEL}"), "f"), None, "{before}");
        }
    }

    #[test]
    fn no_spelling_of_an_include_gets_through() {
        for before in [
            "#include \"/etc/passwd\"",
            "#include </etc/passwd>",
            "#include <mma.h> /*\n*/ \"x\"",
            "#include <mma.h/../../x>",
            "#inc\\\nlude \"/etc/passwd\"",
            "#inc\\\r\nlude \"/etc/passwd\"",
            "#inc\\ \t\nlude \"/etc/passwd\"",
            "#inc\\\u{a0}\nlude \"/etc/passwd\"",
            "%\\\u{2028}\n:include \"/etc/passwd\"",
            "#inc??/\nlude \"/etc/passwd\"",
            "#/* */include </etc/passwd>",
            "/*\n*/ #include </etc/passwd>",
            "/* */#include </etc/passwd>",
            "# include NAME",
            "#include __FILE__",
            "#define NAME \"x\"\n#include <mma.h>",
            "#include_next <mma.h>",
            "#import <mma.h>",
            "#embed </etc/passwd>",
            "#line 1 \"/etc/passwd\"",
            "# 1 \"/etc/passwd\" 1",
            "#pragma GCC dependency \"/etc/passwd\"",
            "#pragma \\\n once",
            "_Pragma(\"once\")",
            "%:include \"/etc/passwd\"",
            "%\\\n:include \"/etc/passwd\"",
            "??=include \"/etc/passwd\"",
            "const char *s = \"//\";\n#include \"x\"",
            "const char *s = R\"(\" /*)\";\n#include \"x\"\n/* */",
            "int i = 1'0; /* ' */\n#include \"x\"",
            "// nvrtc: --pre-include=/etc/passwd",
            "// nv\\\nrtc: --pre-include=/etc/passwd",
            "#if __has_include(\"/etc/passwd\")\n#endif",
            "#if __h\\\nas_embed(\"/etc/passwd\")\n#endif",
            "#if __\\u0068as_include(\"/etc/passwd\")\n#endif",
            "\x0b#include \"x\"",
            "\x0c#include \"x\"",
            "#\x0binclude \"x\"",
            "int i;\r#include \"x\"",
            "\u{feff}#include \"x\"",
            "\u{2028}#include \"x\"",
            "int i;\u{85}#include \"x\"",
            "\u{a0}#include \"x\"",
            "\0#include \"x\"",
            "\x1b[2J",
        ] {
            assert!(refusal(&format!("{before}\n{KERNEL}"), "f").is_some(), "{before}");
        }
    }

    #[test]
    fn a_file_without_a_kernel_and_a_large_one_are_refused() {
        assert!(refusal("", "f").is_some());
        assert!(refusal(&format!("{KERNEL}{}", " ".repeat(1 << 16)), "f").is_some());
    }

    #[test]
    fn parameters_have_the_names_of_the_source() {
        let source = "extern \"C\" __global__ void add(const float *a, float* __restrict__ c,\n unsigned n ) {";
        assert_eq!(parameters(source, "add"), ["a", "c", "n"]);
        assert_eq!(parameters("", "add"), [""; 0]);
    }
}
