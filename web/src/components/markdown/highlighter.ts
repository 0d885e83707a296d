/** Syntax highlighting with lowlight. A separate chunk, loaded for the first complete code block. */
import { common, createLowlight } from 'lowlight';

const lowlight = createLowlight(common);

export interface Span {
  /** Kinds such as "hljs-keyword", outermost first. */
  kinds: readonly string[];
  text: string;
}

/** Highlight code; undefined if the language is unknown. */
export function highlightCode(code: string, language: string): Span[] | undefined {
  if (!lowlight.registered(language)) return undefined;
  const spans: Span[] = [];
  collectSpans(lowlight.highlight(language, code).children, [], spans);
  return spans;
}

type Nodes = ReturnType<typeof lowlight.highlight>['children'];

function collectSpans(nodes: Nodes, kinds: readonly string[], spans: Span[]): void {
  for (const node of nodes) {
    if (node.type === 'text') spans.push({ kinds, text: node.value });
    else if (node.type === 'element') {
      const { className } = node.properties;
      collectSpans(
        node.children as Nodes,
        Array.isArray(className) ? [...kinds, ...className.map(String)] : kinds,
        spans,
      );
    }
  }
}
