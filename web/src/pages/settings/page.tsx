/** /settings: what a person may choose for this browser, and what the server lets them see of itself. */
import { useState, type ReactNode } from 'react';
import { useIsAdmin } from '@/app/auth';
import { ShortcutsTable } from '@/app/shortcuts-dialog';
import { chooseTheme, theme } from '@/app/theme';
import { Segments } from '@/components/segmented-control';
import { useTitle } from '@/lib/hooks';
import { prefer, usePreferences, type Preferences } from '@/lib/preferences';
import { KeysSection } from './api-keys';
import { AboutSection, BrowserSection, Section, ServerSection, TourSection } from './sections';

const THEMES = { system: 'System', light: 'Light', dark: 'Dark' };
const SENDING = { enter: 'Enter', 'ctrl-enter': 'Ctrl + Enter' };

export default function SettingsPage(): ReactNode {
  useTitle('Settings');
  const isAdmin = useIsAdmin();
  const [look, setLook] = useState(theme);
  const { send, transport } = usePreferences();
  return (
    <div className="mx-auto flex max-w-3xl flex-col gap-8 px-4 py-6 sm:px-8">
      <h1 className="text-xl font-semibold">Settings</h1>
      <Section title="Appearance">
        <Row title="Theme" text="System follows what your device says.">
          <Segments
            label="Theme"
            options={THEMES}
            value={look}
            onChange={(chosen) => {
              chooseTheme(chosen);
              setLook(chosen);
            }}
          />
        </Row>
      </Section>
      <Section title="Chat">
        <Row
          title="Sending"
          text={send === 'enter' ? 'Enter sends, Shift + Enter begins a new line.' : 'Ctrl + Enter (on a Mac ⌘ + Enter) sends, Enter begins a new line.'}
        >
          <Segments label="Sending" options={SENDING} value={send} onChange={(chosen) => prefer({ send: chosen })} />
        </Row>
        <Transports chosen={transport} />
      </Section>
      <TourSection />
      <Section title="Keyboard shortcuts">
        <ShortcutsTable send={send} />
      </Section>
      {isAdmin && <KeysSection />}
      {isAdmin && <ServerSection />}
      <AboutSection />
      <BrowserSection />
    </div>
  );
}

const TRANSPORTS: { value: Preferences['transport']; title: string; text: string }[] = [
  {
    value: 'ui-stream',
    title: 'UI stream',
    text: 'The AI SDK’s own protocol at /api/chat. It carries everything: files, inputs, data parts, and answers that go on after a reload.',
  },
  {
    value: 'invocations',
    title: 'Invocations',
    text: 'OpenAI Responses at /invocations through @databricks/ai-sdk-provider, in this browser: what an external AI SDK client would get.',
  },
];

const Transports = ({ chosen }: { chosen: Preferences['transport'] }): ReactNode => (
  <fieldset>
    <legend className="font-medium">How chats reach the server</legend>
    <div className="mt-2 grid gap-2 sm:grid-cols-2">
      {TRANSPORTS.map(({ value, title, text }) => (
        // oxlint-disable-next-line jsx-a11y/label-has-associated-control -- the field is its child
        <label
          key={value}
          className="flex cursor-pointer gap-2.5 rounded-xl border bg-surface p-3 hover:border-strong-line has-checked:border-accent has-focus-visible:outline-2 has-focus-visible:outline-accent"
        >
          <input type="radio" name="transport" checked={chosen === value} onChange={() => prefer({ transport: value })} className="mt-1 size-3.5 shrink-0 accent-(--accent) outline-none" />
          <span className="min-w-0">
            <span className="font-medium">{title}</span>
            <span className="block text-[13px] text-muted wrap-anywhere">{text}</span>
          </span>
        </label>
      ))}
    </div>
  </fieldset>
);

const Row = ({ title, text, children }: { title: string; text: string; children: ReactNode }): ReactNode => (
  <div className="flex flex-wrap items-center justify-between gap-x-6 gap-y-2">
    <div className="min-w-0">
      <div className="font-medium">{title}</div>
      <div className="text-[13px] text-muted">{text}</div>
    </div>
    {children}
  </div>
);
