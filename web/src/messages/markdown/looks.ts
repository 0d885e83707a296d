/** How the parts of code look, by the names that the highlighter gives them ("hljs-keyword"). */
const KEYWORD = 'text-(--code-keyword)';
const STRING = 'text-(--code-string)';
const NUMBER = 'text-(--code-number)';
const TITLE = 'text-(--code-title)';
const LOOKS: Record<string, string> = {
  'hljs-keyword': KEYWORD, 'hljs-type': KEYWORD, 'hljs-name': KEYWORD, 'hljs-selector-tag': KEYWORD, 'hljs-meta': KEYWORD, 'hljs-built_in': KEYWORD,
  'hljs-string': STRING, 'hljs-regexp': STRING, 'hljs-char': STRING, 'hljs-quote': STRING, 'hljs-addition': STRING,
  'hljs-number': NUMBER, 'hljs-literal': NUMBER, 'hljs-symbol': NUMBER, 'hljs-bullet': NUMBER, 'hljs-template-variable': NUMBER, 'hljs-deletion': NUMBER,
  'hljs-comment': 'text-(--code-comment) italic',
  'hljs-title': TITLE, 'hljs-section': TITLE, 'hljs-attr': TITLE, 'hljs-attribute': TITLE, 'hljs-property': TITLE, 'hljs-variable': TITLE,
  'hljs-selector-class': TITLE, 'hljs-selector-id': TITLE, 'hljs-function': TITLE, 'hljs-link': TITLE,
  'hljs-emphasis': 'italic', 'hljs-strong': 'font-semibold',
};

/** The look of the innermost name that has one. */
export const lookOf = (kinds: readonly string[]): string | undefined => kinds.map((kind) => LOOKS[kind]).findLast(Boolean);
