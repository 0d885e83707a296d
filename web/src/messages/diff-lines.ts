/** Two texts as the lines of a diff, and as a patch. */
import { FILE_HEADERS_ONLY, createTwoFilesPatch, structuredPatch } from 'diff';

export interface Line {
  kind: 'same' | 'old' | 'new' | 'gap';
  /** Its number before and after; none where it was not or is not. */
  before?: number;
  after?: number;
  text: string;
}

const MAX_DIFF = 400_000;

/** What differs, three lines around each; nothing where it is too much to compare. */
export function diffLines(old: string, now: string): Line[] | undefined {
  if (old.length + now.length > MAX_DIFF) return undefined;
  const patch = structuredPatch('', '', old, now, '', '', { context: 3, timeout: 500 });
  if (!patch) return undefined;
  const lines: Line[] = [];
  for (const hunk of patch.hunks) {
    let before = hunk.oldStart;
    let after = hunk.newStart;
    if (lines.length > 0 || before > 1) lines.push({ kind: 'gap', text: '' });
    for (const line of hunk.lines) {
      const [mark, body] = [line[0], line.slice(1)];
      if (mark === '+') lines.push({ kind: 'new', after: after++, text: body });
      else if (mark === '-') lines.push({ kind: 'old', before: before++, text: body });
      else if (mark === ' ') lines.push({ kind: 'same', before: before++, after: after++, text: body });
    }
  }
  return lines;
}

/** The same as a unified diff, for `git apply` and its like. */
export function patchOf(name: string, old: string, now: string): string {
  const file = name.replaceAll(/[\p{Cc}\p{Cf}\p{Z}]+/gu, '-').slice(0, 200) || 'code';
  return createTwoFilesPatch(`a/${file}`, `b/${file}`, old, now, undefined, undefined, { context: 3, headerOptions: FILE_HEADERS_ONLY });
}
