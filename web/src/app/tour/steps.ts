/** Steps of the tour. docs/get-started/tour.md has the same titles. */
import type { StepId } from './progress';

export interface Step {
  id: StepId;
  title: string;
  /** Controls are in [brackets], typed text in `backticks`. */
  text: string;
  /** Where the step starts, and the label of the link. */
  href: string;
  link: string;
}

export const STEPS: readonly Step[] = [
  {
    id: 'talk',
    title: 'Talk to a workflow',
    text: 'Type `I need a holiday` and press [Enter]. The answer streams in.',
    href: '/play?workflow=eliza',
    link: 'Talk to eliza',
  },
  {
    id: 'compare',
    title: 'Compare two variants in three threads',
    text:
      'Click [+] on the right and choose [Duplicate calculator]. In the new column, choose the variant [hasty]. ' +
      'Click [Add thread] twice, then send `2 + 3 * 4`.',
    href: '/play?workflow=calculator',
    link: 'Open calculator',
  },
  {
    id: 'trace',
    title: 'Continue a trace in the playground',
    text:
      'This trace was sent by another program, travel-desk. Open it, click [Open in playground] ' +
      'and choose [eliza] to continue the conversation.',
    href: `/traces?${new URLSearchParams({ f: 'service~eq~travel-desk' })}`,
    link: 'Traces from travel-desk',
  },
  {
    id: 'case',
    title: 'Add a turn to a test set',
    text: 'Send `6 * 7 - 2`. Below the answer, click [More] and [Add to test set]. Choose [Sums] and click [Add].',
    href: '/play?workflow=calculator',
    link: 'Chat with calculator',
  },
  {
    id: 'evaluate',
    title: 'Run an evaluation',
    text:
      'Choose the test set [Sums], click [Add a workflow] (calculator is preselected), ' +
      'add the evaluator [Contains] and click [Run].',
    href: '/evaluations?new=1',
    link: 'New evaluation',
  },
  {
    id: 'worse',
    title: 'Find out what got worse',
    text:
      'Open [As written], click [Compare with…], then [Compare]. ' +
      'The verdict is at the top, with the regressed rows below.',
    href: '/evaluations',
    link: 'Evaluations',
  },
  {
    id: 'call',
    title: 'Call a workflow from your code',
    text: 'Under API, choose [curl], [OpenAI Python] or [AI SDK], click [Copy code] and run the code.',
    href: '/workflows/eliza#call',
    link: 'Code for eliza',
  },
];

export interface TextPiece {
  kind: 'plain' | 'pressed' | 'typed';
  text: string;
}

/** Split a step's text into plain, control and code pieces. */
export function textPieces(text: string): TextPiece[] {
  return text
    .split(/(\[[^\]]+\]|`[^`]+`)/)
    .filter(Boolean)
    .map((piece) => {
      if (piece.startsWith('[')) return { kind: 'pressed', text: piece.slice(1, -1) };
      if (piece.startsWith('`')) return { kind: 'typed', text: piece.slice(1, -1) };
      return { kind: 'plain', text: piece };
    });
}
