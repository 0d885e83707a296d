/** Steps of the tour. docs/tour.md has the same titles. */
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
    text: 'Write `I need a holiday` and press [Enter]. The answer streams in.',
    href: '/play?workflow=eliza',
    link: 'Talk to eliza',
  },
  {
    id: 'compare',
    title: 'Compare two variants in three threads',
    text:
      'Press [+] at the right, choose [calculator once more], and in its head choose [hasty] instead of default. ' +
      'Press [Add thread] twice, then send `2 + 3 * 4`.',
    href: '/play?workflow=calculator',
    link: 'Begin with calculator',
  },
  {
    id: 'trace',
    title: 'Open a trace as a live thread',
    text:
      'Another program, travel-desk, sent this trace. Open it, press [Open in playground], ' +
      'and choose [eliza] to go on with the talk.',
    href: `/traces?${new URLSearchParams({ f: 'service~eq~travel-desk' })}`,
    link: 'Traces of travel-desk',
  },
  {
    id: 'case',
    title: 'Save a turn as a test case',
    text: 'Send `6 * 7 - 2`. Below the answer press [More], [Add to test set], and with Sums chosen press [Add].',
    href: '/play?workflow=calculator',
    link: 'Ask calculator',
  },
  {
    id: 'evaluate',
    title: 'Run an evaluation',
    text:
      'Choose the set [Sums], press [Add a workflow] (it is calculator), ' +
      'choose the evaluator [Contains] and press [Run].',
    href: '/evaluations?new=1',
    link: 'New evaluation',
  },
  {
    id: 'worse',
    title: 'Read “is it worse?”',
    text:
      'Open [As written], press [Compare with…], then [Compare]. ' +
      'The verdict is on top, the rows that were lost are below.',
    href: '/evaluations',
    link: 'Evaluations',
  },
  {
    id: 'call',
    title: 'Call it from curl, openai and the AI SDK',
    text:
      'Below Call it from a program choose [curl], [OpenAI Python] or [AI SDK], ' +
      'press [Copy code], and run it in a terminal.',
    href: '/workflows/eliza#call',
    link: 'Programs for eliza',
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
