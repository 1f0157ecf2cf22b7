#!/bin/sh
# Check the relative links and anchors of markdown files. Does not use the network: URLs with a scheme are skipped.
#
# usage: check-links.sh [--root DIR] [--] [PATH ...]     files, or folders to search for *.md; default: .
#        --root DIR    the root for links that start with a slash; default: the current folder
# exit:  0 no broken links   1 broken links   2 wrong usage
#
# Checks inline links, images and reference definitions outside code, comments and frontmatter. Anchors are compared as
# GitHub generates them from headings, by their ASCII characters; ids in HTML or as {#id} count too.
set -eu
LC_ALL=C
export LC_ALL

usage() {
    echo "usage: check-links.sh [--root DIR] [--] [PATH ...]"
    echo "Reports broken relative links and anchors in markdown files."
}

root=.
while [ "$#" -gt 0 ]; do
    case $1 in
        -h | --help) usage; exit 0 ;;
        --root)
            [ "$#" -gt 1 ] || { usage >&2; exit 2; }
            root=$2
            shift 2
            ;;
        --) shift; break ;;
        -*) usage >&2; exit 2 ;;
        *) break ;;
    esac
done
[ "$#" -gt 0 ] || set -- .
for path in "$@"; do
    if [ ! -e "$path" ]; then
        echo "check-links.sh: '$path' does not exist" >&2
        exit 2
    fi
done

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
trap 'exit 2' HUP INT TERM

# Shared by both programs: sets `live` to the line without code spans and comments, or skips the line.
cat > "$work/lines.awk" <<'AWK'
function strip_comments(text,    at, end, kept) {
    kept = ""
    for (;;) {
        if (in_comment) {
            end = index(text, "-->")
            if (!end) return kept
            text = substr(text, end + 3)
            in_comment = 0
        }
        at = index(text, "<!--")
        if (!at) return kept text
        kept = kept substr(text, 1, at - 1)
        text = substr(text, at + 4)
        in_comment = 1
    }
}
function strip_code(text,    kept, start, ticks, rest, at) {
    kept = ""
    while (match(text, /`+/)) {
        start = RSTART
        ticks = RLENGTH
        rest = substr(text, start + ticks)
        at = closing(rest, ticks)
        kept = kept substr(text, 1, start - 1) (at ? "x" : substr(text, start, ticks))
        text = at ? substr(rest, at + ticks) : rest
    }
    return kept text
}
function closing(text, ticks,    skipped) {
    skipped = 0
    while (match(text, /`+/)) {
        if (RLENGTH == ticks) return skipped + RSTART
        skipped += RSTART + RLENGTH - 1
        text = substr(text, RSTART + RLENGTH)
    }
    return 0
}
function fence_of(text) {
    sub(/^[ \t>]*/, "", text)
    if (match(text, /^(````*|~~~~*)/)) {
        fence_rest = substr(text, RLENGTH + 1)
        return substr(text, 1, RLENGTH)
    }
    return ""
}
{ sub(/\r$/, "") }
FNR == 1 { sub(/^\357\273\277/, ""); if ($0 == "---") { in_front = 1; next } }
in_front { if ($0 == "---" || $0 == "...") in_front = 0; next }
{
    mark = fence_of($0)
    if (in_fence) {
        if (mark != "" && substr(mark, 1, 1) == substr(in_fence, 1, 1) && length(mark) >= length(in_fence) && fence_rest ~ /^[ \t]*$/) in_fence = ""
        next
    }
    if (!in_comment && mark != "" && !(substr(mark, 1, 1) == "`" && index(fence_rest, "`"))) { in_fence = mark; last = ""; next }
}
AWK

# One line for each link: its line number, a tab, and its target.
cat > "$work/links.awk" <<'AWK'
function tell(target) {
    if (target != "" && target !~ /^[A-Za-z][A-Za-z0-9+.-]*:/ && target !~ /^\/\//) print FNR "\t" target
}
function target_of(text,    at, depth, char) {
    sub(/^[ \t]+/, "", text)
    if (substr(text, 1, 1) == "<") return match(text, />/) ? substr(text, 2, RSTART - 2) : ""
    depth = 0
    for (at = 1; at <= length(text); at++) {
        char = substr(text, at, 1)
        if (char == "\\") { at++; continue }
        if (char == " " || char == "\t") break
        if (char == "(") depth++
        if (char == ")" && depth-- == 0) break
    }
    text = substr(text, 1, at - 1)
    gsub(/\\/, "", text)
    return text
}
{
    live = strip_code(strip_comments($0))
    if (live ~ /^ ? ? ?\[[^]^][^]]*\]:[ \t]*[^ \t]/) {
        sub(/^ *\[[^]]*\]:/, "", live)
        tell(target_of(live))
        next
    }
    while ((at = index(live, "](")) > 0) {
        live = substr(live, at + 2)
        tell(target_of(live))
    }
}
AWK

# One line for each anchor that a file has.
cat > "$work/anchors.awk" <<'AWK'
function slug(text) {
    text = tolower(text)
    gsub(/[^a-z0-9 _-]/, "", text)
    gsub(/ /, "-", text)
    return text
}
function tell(name,    known) {
    known = seen[name]++
    print known ? name "-" known : name
}
function heading(text,    plain) {
    sub(/[ \t]+#+[ \t]*$/, "", text)
    if (match(text, /\{#[^} ]+\}[ \t]*$/)) {
        plain = substr(text, RSTART + 2)
        sub(/\}.*/, "", plain)
        print tolower(plain)
        text = substr(text, 1, RSTART - 1)
    }
    while (match(text, /\]\([^)]*\)/)) text = substr(text, 1, RSTART - 1) substr(text, RSTART + RLENGTH)
    gsub(/^[ \t]+|[ \t]+$/, "", text)
    plain = text
    gsub(/<\/?[A-Za-z][^>]*>/, "", plain)
    gsub(/^[ \t]+|[ \t]+$/, "", plain)
    tell(slug(text))
    if (slug(plain) != slug(text)) print slug(plain)
}
{
    live = strip_comments($0)
    text = live
    while (match(text, /(id|name)="[^"]*"/)) {
        name = substr(text, RSTART, RLENGTH)
        text = substr(text, RSTART + RLENGTH)
        sub(/^[^"]*"/, "", name)
        sub(/"$/, "", name)
        name = tolower(name)
        gsub(/[\200-\377]/, "", name)
        print name
    }
    if (live ~ /^ ? ? ?##?#?#?#?#?([ \t]|$)/) {
        sub(/^ *#+[ \t]*/, "", live)
        heading(live)
        last = ""
    } else if (last != "" && live ~ /^ ? ? ?(==*|--*)[ \t]*$/) {
        heading(last)
        last = ""
    } else {
        last = live ~ /^[ \t]*$/ ? "" : live
    }
}
AWK

decoded() {
    case $1 in
        *%*) printf '%s' "$1" | awk '
            BEGIN { for (i = 1; i < 256; i++) byte[sprintf("%02x", i)] = sprintf("%c", i) }
            {
                out = ""
                while (match($0, /%[0-9A-Fa-f][0-9A-Fa-f]/)) {
                    code = tolower(substr($0, RSTART + 1, 2))
                    out = out substr($0, 1, RSTART - 1) (code in byte ? byte[code] : "%" code)
                    $0 = substr($0, RSTART + 3)
                }
                print out $0
            }' ;;
        *) printf '%s\n' "$1" ;;
    esac
}

has_anchor() {
    wanted=$(decoded "$2" | tr 'A-Z' 'a-z' | tr -d '\200-\377')
    case $wanted in '' | top) return 0 ;; esac
    case $1 in -*) subject=./$1 ;; *) subject=$1 ;; esac
    awk -f "$work/lines.awk" -f "$work/anchors.awk" < "$subject" | grep -Fqx -e "$wanted"
}

# Print why a link is broken; print nothing if it is not.
fault() {
    file=$1 target=$2
    path=${target%%#*} anchor=
    case $target in *'#'*) anchor=${target#*#} ;; esac
    path=$(decoded "${path%%\?*}")
    case $path in
        '') goal=$file ;;
        /*) goal=$root$path ;;
        *) case $file in */*) goal=${file%/*}/$path ;; *) goal=$path ;; esac ;;
    esac
    if [ ! -e "$goal" ]; then
        echo "file not found"
        return 0
    fi
    if [ -d "$goal" ]; then
        for name in README.md index.md; do
            if [ -f "$goal/$name" ]; then
                goal=$goal/$name
                break
            fi
        done
    fi
    case $goal in
        *.md) [ -z "$anchor" ] || has_anchor "$goal" "$anchor" || echo "no heading has this anchor" ;;
    esac
}

for path in "$@"; do
    if [ -d "$path" ]; then
        case $path in -*) path=./$path ;; esac
        find "$path" \( -name .git -o -name node_modules -o -name .venv \) -prune -o -type f -name '*.md' -print
    else
        printf '%s\n' "$path"
    fi
done | sort -u > "$work/files"

files=0 links=0 bad=0
while IFS= read -r file; do
    files=$((files + 1))
    awk -f "$work/lines.awk" -f "$work/links.awk" < "$file" > "$work/links"
    while IFS='	' read -r line target; do
        links=$((links + 1))
        why=$(fault "$file" "$target")
        if [ -n "$why" ]; then
            bad=$((bad + 1))
            printf '%s:%s: %s: %s\n' "$file" "$line" "$target" "$why"
        fi
    done < "$work/links"
done < "$work/files"

echo "check-links.sh: $links links in $files files, $bad broken"
[ "$bad" -eq 0 ] || exit 1
