/** Evidence of discovery: probes of a service, its answers and the conclusion. */
import { Check, TriangleAlert } from 'lucide-react';
import type { ReactNode } from 'react';
import { isObject } from '@/components/forms/json-schema';
import { cn } from '@/lib/cn';

export function EvidenceView({ evidence }: { evidence: Evidence }): ReactNode {
  return (
    <div className="flex flex-col gap-3">
      <p>
        {evidenceVerdict(evidence)}
        {evidence.dialect && <span className="text-muted"> Protocol: {dialectLabel(evidence.dialect)}.</span>}
        {evidence.streams === true && <span className="text-muted"> Supports streaming.</span>}
      </p>
      {evidence.warnings.map((warning) => (
        <p key={warning} className="flex items-start gap-2 rounded-lg bg-warn-soft px-3 py-2 text-warn">
          <TriangleAlert aria-hidden className="mt-0.5 size-4 shrink-0" />
          <span className="min-w-0 wrap-anywhere" dir="auto">
            {warning}
          </span>
        </p>
      ))}
      <ProbeTable probes={evidence.probes} decider={evidence.evidence} />
    </div>
  );
}

export function ProbeTable({ probes, decider }: { probes: readonly ProbeAttempt[]; decider?: string }): ReactNode {
  if (probes.length === 0) return null;
  return (
    <div className="overflow-x-auto rounded-lg border bg-surface">
      <table className="w-full text-left text-[13px]">
        <thead className="bg-sunken text-xs text-muted">
          <tr>
            <th className="px-3 py-1.5 font-medium">Check</th>
            <th className="px-3 py-1.5 font-medium">Request</th>
            <th className="px-3 py-1.5 font-medium">Result</th>
          </tr>
        </thead>
        <tbody className="divide-y divide-line">
          {probes.map(({ step, request, status, found }) => (
            <tr key={`${step} ${request}`} className={cn('align-top', step === decider ? '' : 'text-muted')}>
              <td className="px-3 py-1.5">
                <span className="flex items-start gap-1.5">
                  {step === decider && <Check aria-label="Decisive" className="mt-0.5 size-4 shrink-0 text-good" />}
                  {stepLabel(step)}
                </span>
              </td>
              <td className="px-3 py-1.5 font-mono text-xs leading-5 whitespace-nowrap">
                {request ?? 'none'}
                {request && <span className="text-faint"> → {status ?? 'no response'}</span>}
              </td>
              <td className="min-w-40 px-3 py-1.5 wrap-anywhere" dir="auto">
                {found}
              </td>
            </tr>
          ))}
        </tbody>
      </table>
    </div>
  );
}

export interface ProbeAttempt {
  step: string;
  request: string | null;
  status: number | null;
  found: string;
}

export interface Evidence {
  url: string;
  isChat: boolean | null;
  evidence: string;
  confidence: string | null;
  dialect: string | null;
  call: string | null;
  streams: boolean | null;
  warnings: string[];
  probes: ProbeAttempt[];
}

/** Parse the evidence document; null if invalid. */
export function parseEvidence(value: unknown): Evidence | null {
  if (!isObject(value) || typeof value.evidence !== 'string') return null;
  return {
    url: asText(value.url) ?? '',
    isChat: asFlag(value.is_chat),
    evidence: value.evidence,
    confidence: asText(value.confidence),
    dialect: asText(value.dialect),
    call: asText(value.call),
    streams: asFlag(value.streams),
    warnings: Array.isArray(value.warnings) ? value.warnings.map(String) : [],
    probes: parseProbes(value.tried),
  };
}

export function parseProbes(value: unknown): ProbeAttempt[] {
  return (Array.isArray(value) ? value : []).filter(isObject).map((probe) => ({
    step: asText(probe.step) ?? '',
    request: asText(probe.request),
    status: typeof probe.status === 'number' ? probe.status : null,
    found: asText(probe.found) ?? '',
  }));
}

const STEP_LABELS: Record<string, string> = {
  'inspect.flags': 'Service description (/inspect)',
  'openapi.flags': 'Flag in the OpenAPI document',
  'schema.marker': 'Marker in the input schema',
  'schema.messages': 'Field names in the input schema',
  'mlflow.info': 'MLflow agent card',
  'openai.models': 'OpenAI model list',
  none: 'None',
};

const CONFIDENCE_LABELS: Record<string, string> = {
  declared: 'declared by the service',
  marked: 'messages are marked in its schema',
  guessed: 'guessed from field names in its schema',
  assumed: 'assumed from the kind of service',
};

const DIALECT_LABELS: Record<string, string> = {
  invoke: 'Invoke envelope',
  run: 'Plain /run calls',
  responses: 'OpenAI Responses',
  'chat-completions': 'OpenAI Chat Completions',
};

export const stepLabel = (step: string): string => STEP_LABELS[step] ?? step;
export const dialectLabel = (dialect: string): string => DIALECT_LABELS[dialect] ?? dialect;

/** Conclusion and confidence in one sentence. */
export function evidenceVerdict({ isChat, confidence }: Pick<Evidence, 'isChat' | 'confidence'>): string {
  if (isChat === null) return 'Could not detect whether this is a chat.';
  const confidenceText = confidence ? (CONFIDENCE_LABELS[confidence] ?? confidence) : 'set by you';
  return `${isChat ? 'Chat' : 'Single-turn'}: ${confidenceText}.`;
}

/** The same for workflows of this server, which need no discovery. */
export function servedVerdict(isChat: boolean, source: 'declared' | 'derived'): string {
  const kind = isChat ? 'Chat' : 'Single-turn';
  return source === 'declared' ? `${kind}: declared in code.` : `${kind}: inferred from its inputs.`;
}

const asText = (value: unknown): string | null => (typeof value === 'string' ? value : null);
const asFlag = (value: unknown): boolean | null => (typeof value === 'boolean' ? value : null);
