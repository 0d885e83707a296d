/** How the end of a text that still streams is best read: what is half written must not flicker. */

/** Without a last line that is only marks yet: `-` would make a heading of the line before it, and then be a list. */
export function held(text: string): string {
  const line = text.slice(text.lastIndexOf('\n') + 1);
  return line.length < 20 && /^[\s>]*(?:[-=*+#_~`|:]+\s?)+$/.test(line) ? text.slice(0, text.length - line.length) : text;
}

/** Is the code of this fenced block complete? `raw` is the whole of the block. */
export function closedFence(raw: string): boolean {
  const fence = /^ {0,3}(`{3,}|~{3,})/.exec(raw)?.[1];
  if (!fence) return true;
  const last = raw.trimEnd().split('\n');
  return last.length > 1 && (last.at(-1)?.trim().startsWith(fence) ?? false);
}

/** The last paragraph with what it has opened closed: `**bol` is bold, `[a link](https://exa` is its words. */
export function mended(text: string): string {
  const unlinked = text.replace(/!?\[([^\][\n]{0,300})(?:\](?:\([^)\s]{0,2000})?)?$/, '$1');
  if (odd(unlinked, '`')) return unlinked.endsWith('`') ? unlinked.replace(/`+$/, '') : `${unlinked}\``;
  if (odd(unlinked, '**')) return unlinked.endsWith('**') ? unlinked.slice(0, -2) : `${unlinked.replace(/\s?\*?$/, '')}**`;
  return unlinked;
}

const odd = (text: string, mark: string): boolean => text.split(mark).length % 2 === 0;

/** A paragraph that begins a table whose second line is not whole yet, as the table it will be. */
export function table(text: string): string | undefined {
  const [header = '', rule = '', more] = text.split('\n');
  if (more !== undefined || !/^ {0,3}\|.*\|\s*$/.test(header) || !/^[\s|:-]*$/.test(rule)) return undefined;
  const columns = header.trim().slice(1, -1).split(/(?<!\\)\|/).length;
  return `${header}\n${'| --- '.repeat(columns)}|`;
}
