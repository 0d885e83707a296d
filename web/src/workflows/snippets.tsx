/** Whole programs that call a workflow, ready to copy. */
import { Tabs } from 'radix-ui';
import { useState, type ReactNode } from 'react';
import type { Workflow } from '@/api/types';
import { CodeBlock } from '@/components/markdown/code-block';
import { done } from '@/app/tour/progress';

type Snippet = Workflow['snippets'][number];

const NAMES: Record<Snippet['client'], string> = {
  curl: 'curl',
  'openai-python': 'OpenAI Python',
  'openai-node': 'OpenAI Node',
  'ai-sdk': 'AI SDK',
  langchain: 'LangChain',
};

export function Snippets({ snippets }: { snippets: readonly Snippet[] }): ReactNode {
  const [shown, setShown] = useState<string>(snippets[0]?.client ?? '');
  const keyed = snippets.some(({ code }) => code.includes('PALAVER_KEY'));
  return (
    <Tabs.Root value={shown} onValueChange={setShown} className="flex flex-col gap-2">
      <Tabs.List aria-label="Client" className="flex gap-1 overflow-x-auto pb-0.5">
        {snippets.map(({ client }) => (
          <Tabs.Trigger
            key={client}
            value={client}
            className="h-7 shrink-0 rounded-lg px-2.5 text-[13px] whitespace-nowrap text-muted -outline-offset-2 hover:text-ink data-[state=active]:bg-accent-soft data-[state=active]:font-medium data-[state=active]:text-accent"
          >
            {NAMES[client] ?? client}
          </Tabs.Trigger>
        ))}
      </Tabs.List>
      {snippets.map(({ client, language, code }) => (
        <Tabs.Content key={client} value={client} className="min-w-0" tabIndex={-1}>
          <CodeBlock text={code.trimEnd()} language={language} onCopied={() => done('call')} />
        </Tabs.Content>
      ))}
      {keyed && (
        <p className="text-xs text-muted">
          The key is read from the variable <code className="font-mono">PALAVER_KEY</code>; set it before you run this.
        </p>
      )}
    </Tabs.Root>
  );
}
