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
  label: string;
  icon: LucideIcon;
  /** CSS variable. */
  colour: string;
}

const KIND_STYLES = new Map<string, KindStyle>([
  ['workflow', { label: 'Workflow', icon: Workflow, colour: '--muted' }],
  ['agent', { label: 'Agent', icon: Bot, colour: '--code-title' }],
  ['llm', { label: 'Model', icon: Cpu, colour: '--accent' }],
  ['tool', { label: 'Tool', icon: Wrench, colour: '--code-string' }],
  ['retrieval', { label: 'Retrieval', icon: FileSearch, colour: '--code-number' }],
  ['embedding', { label: 'Embedding', icon: Layers, colour: '--code-number' }],
  ['rerank', { label: 'Rerank', icon: ListOrdered, colour: '--code-number' }],
  ['guardrail', { label: 'Guardrail', icon: ShieldCheck, colour: '--code-keyword' }],
  ['evaluator', { label: 'Evaluator', icon: FlaskConical, colour: '--code-keyword' }],
  ['task', { label: 'Task', icon: ListChecks, colour: '--faint' }],
]);
const OTHER_KIND: KindStyle = { label: 'Span', icon: Shapes, colour: '--faint' };

const kindStyle = (kind: string): KindStyle => KIND_STYLES.get(kind) ?? OTHER_KIND;

export const kindLabel = (kind: string): string => kindStyle(kind).label;

/** CSS variable of a span's color. */
export const kindColour = (kind: string, status: string): string =>
  status === 'error' ? '--bad' : kindStyle(kind).colour;

export function KindIcon({ kind, className }: { kind: string; className?: string }): ReactNode {
  const { icon: Icon, label, colour } = kindStyle(kind);
  return (
    <Icon
      role="img"
      aria-label={label}
      className={cn('size-3.5 shrink-0', className)}
      style={{ color: `var(${colour})` }}
    />
  );
}

const STATUSES = new Map([
  ['error', { label: 'Failed', icon: CircleAlert, tone: 'text-bad' }],
  ['cancelled', { label: 'Cancelled', icon: Ban, tone: 'text-muted' }],
  ['incomplete', { label: 'Incomplete', icon: CircleDashed, tone: 'text-warn' }],
]);

export const statusLabel = (status: string): string => STATUSES.get(status)?.label ?? 'OK';

/** Nothing for ok: only problems stand out. */
export function StatusIcon({ status }: { status: string }): ReactNode {
  const style = STATUSES.get(status);
  if (!style) return null;
  const { icon: Icon, label, tone } = style;
  return <Icon role="img" aria-label={label} className={cn('size-3.5 shrink-0', tone)} />;
}
