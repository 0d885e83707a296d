/** Code as coloured spans. A chunk of its own: it is fetched when the first code block is done. */
import { common, createLowlight } from 'lowlight';

const lowlight = createLowlight(common);

export interface Span {
  /** The names of what it is ("hljs-keyword"), outermost first. */
  kinds: readonly string[];
  text: string;
}

/** The code in spans, or nothing where the language is not known. */
export function highlightCode(code: string, language: string): Span[] | undefined {
  if (!lowlight.registered(language)) return undefined;
  const spans: Span[] = [];
  collectSpans(lowlight.highlight(language, code).children, [], spans);
  return spans;
}

type Nodes = ReturnType<typeof lowlight.highlight>['children'];

function collectSpans(nodes: Nodes, kinds: readonly string[], into: Span[]): void {
  for (const node of nodes) {
    if (node.type === 'text') into.push({ kinds, text: node.value });
    else if (node.type === 'element') {
      const { className } = node.properties;
      collectSpans(
        node.children as Nodes,
        Array.isArray(className) ? [...kinds, ...className.map(String)] : kinds,
        into,
      );
    }
  }
}
