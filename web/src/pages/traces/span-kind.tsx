/** Icon, color and label of span kinds and statuses. */
import {
  Ban,
  Bot,
  CircleAlert,
  CircleDashed,
  Cpu,
  FileSearch,
  FlaskConical,
  Layers,
  ListChecks,
  ListOrdered,
  Shapes,
  ShieldCheck,
  Workflow,
  Wrench,
  type LucideIcon,
} from 'lucide-react';
import type { ReactNode } from 'react';
import { cn } from '@/lib/cn';

interface KindStyle {
  word: string;
  icon: LucideIcon;
  /** CSS variable. */
  colour: string;
}

const KIND_STYLES = new Map<string, KindStyle>([
  ['workflow', { word: 'Workflow', icon: Workflow, colour: '--muted' }],
  ['agent', { word: 'Agent', icon: Bot, colour: '--code-title' }],
  ['llm', { word: 'Model', icon: Cpu, colour: '--accent' }],
  ['tool', { word: 'Tool', icon: Wrench, colour: '--code-string' }],
  ['retrieval', { word: 'Retrieval', icon: FileSearch, colour: '--code-number' }],
  ['embedding', { word: 'Embedding', icon: Layers, colour: '--code-number' }],
  ['rerank', { word: 'Rerank', icon: ListOrdered, colour: '--code-number' }],
  ['guardrail', { word: 'Guardrail', icon: ShieldCheck, colour: '--code-keyword' }],
  ['evaluator', { word: 'Evaluator', icon: FlaskConical, colour: '--code-keyword' }],
  ['task', { word: 'Task', icon: ListChecks, colour: '--faint' }],
]);
const OTHER_KIND: KindStyle = { word: 'Span', icon: Shapes, colour: '--faint' };

const kindStyle = (kind: string): KindStyle => KIND_STYLES.get(kind) ?? OTHER_KIND;

export const kindLabel = (kind: string): string => kindStyle(kind).word;

/** CSS variable of a span's color. */
export const kindColour = (kind: string, status: string): string =>
  status === 'error' ? '--bad' : kindStyle(kind).colour;

export function KindIcon({ kind, className }: { kind: string; className?: string }): ReactNode {
  const { icon: Icon, word, colour } = kindStyle(kind);
  return (
    <Icon
      role="img"
      aria-label={word}
      className={cn('size-3.5 shrink-0', className)}
      style={{ color: `var(${colour})` }}
    />
  );
}

const STATUSES = new Map([
  ['error', { word: 'Failed', icon: CircleAlert, tone: 'text-bad' }],
  ['cancelled', { word: 'Stopped', icon: Ban, tone: 'text-muted' }],
  ['incomplete', { word: 'Not complete', icon: CircleDashed, tone: 'text-warn' }],
]);

export const statusLabel = (status: string): string => STATUSES.get(status)?.word ?? 'OK';

/** Nothing for ok: only problems stand out. */
export function StatusIcon({ status }: { status: string }): ReactNode {
  const style = STATUSES.get(status);
  if (!style) return null;
  const { icon: Icon, word, tone } = style;
  return <Icon role="img" aria-label={word} className={cn('size-3.5 shrink-0', tone)} />;
}
